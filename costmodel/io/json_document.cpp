#include "costmodel/io/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "costmodel/io/files.h"

namespace xt {
namespace {

constexpr std::size_t deepest = 200;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// Where byte `at` of `text` stands.
Mark mark_at(std::string_view text, std::size_t at, std::size_t length) {
  const std::string_view before = text.substr(0, at);
  const auto lines = std::ranges::count(before, '\n');
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(lines) + 1, static_cast<int>(at - begin) + 1, static_cast<int>(length)};
}

/// Walks over the tokens of text that the parser has already accepted, and says where they stand.
class Cursor {
 public:
  /// A mark of byte order in front is no token, as the parser has it.
  explicit Cursor(std::string_view text)
      : text_(text), at_(text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0) {}

  /// The mark of the next token, which is stepped over.
  Mark next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n,:").find(text_[at_]) != npos) step();
    const std::size_t begin = at_;
    const Mark mark = {line_, static_cast<int>(begin - line_begin_) + 1, 0};
    if (at_ < text_.size()) skip_token();
    last_ = text_.substr(begin, at_ - begin);
    return {mark.line, mark.column, static_cast<int>(at_ - begin)};
  }

  /// The token last stepped over.
  [[nodiscard]] std::string_view last() const { return last_; }

 private:
  static constexpr std::size_t npos = std::string_view::npos;

  void step() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_begin_ = at_;
  }
  void skip_token() {
    const char first = text_[at_++];
    if (std::string_view("{}[]").find(first) != npos) return;
    if (first == '"') {
      while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      ++at_;
      return;
    }
    at_ = std::min(text_.size(), text_.find_first_of(" \t\r\n,:{}[]", at_));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_begin_ = 0;
  std::string_view last_;
};

/// Builds nodes from the parser's events; the marks come from walking the text alongside.
class Builder {
 public:
  explicit Builder(const SourceText& source) : source_(source), cursor_(source.text) {}

  bool null() { return put({}, cursor_.next()); }
  bool boolean(bool value) { return put(literal_node(value ? "true" : "false"), cursor_.next()); }
  bool number_integer(std::int64_t) { return put_number(); }
  bool number_unsigned(std::uint64_t) { return put_number(); }
  bool number_float(double, const std::string&) { return put_number(); }
  bool string(std::string& value) { return put(text_node(std::move(value)), cursor_.next()); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(map_node()); }
  bool start_array(std::size_t) { return open(list_node()); }
  bool key(std::string& text) {
    open_.back().keys.push_back({std::move(text), cursor_.next()});
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception&) {
    const std::size_t at = position == 0 ? 0 : position - 1;
    fail(mark_at(source_.text, std::min(at, source_.text.size()), 1),
         token.empty() || at >= source_.text.size() ? "is not JSON: the text ends too early"
                                                    : "is not JSON from here on");
  }

  Node take() { return std::move(root_); }

 private:
  [[noreturn]] void fail(Mark mark, std::string message) {
    const Location where = {source_.path, mark.line, mark.column, mark.length};
    throw InputError({{Severity::error, where, std::move(message)}}, {source_});
  }
  bool put_number() {
    const Mark mark = cursor_.next();
    return put(literal_node(std::string(cursor_.last())), mark);
  }
  bool put(Node node, Mark mark) {
    node.mark = mark;
    if (open_.empty()) {
      root_ = std::move(node);
      return true;
    }
    Node& parent = open_.back();
    // Lists, maps and nothings are pointed at by the key that names them.
    if (parent.kind == Node::Kind::map && node.kind != Node::Kind::scalar)
      node.mark = parent.keys.back().mark;
    parent.items.push_back(std::move(node));
    return true;
  }
  bool open(Node node) {
    node.mark = cursor_.next();
    if (open_.size() == deepest) fail(node.mark, "is nested too deeply");
    open_.push_back(std::move(node));
    return true;
  }
  bool close() {
    cursor_.next();
    Node node = std::move(open_.back());
    open_.pop_back();
    const Mark mark = open_.empty() ? Mark{} : node.mark;
    return put(std::move(node), mark);
  }

  const SourceText& source_;
  Cursor cursor_;
  Node root_;
  std::vector<Node> open_;
};

}  // namespace

Document parse_json_document(SourceText source) {
  Document document{std::move(source), {}};
  Builder builder(document.source);
  nlohmann::json::sax_parse(document.source.text, &builder);
  document.root = builder.take();
  return document;
}

Document read_json(const std::filesystem::path& path) {
  return parse_json_document({path.string(), read_file(path)});
}

Json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::nothing:
      return {};
    case Node::Kind::scalar:
      return node.is_text ? Json(node.text) : parse_json(node.text);
    case Node::Kind::list: {
      Json array = Json::array();
      for (const Node& item : node.items) array.push_back(to_json(item));
      return array;
    }
    case Node::Kind::map: {
      Json object = Json::object();
      for (std::size_t i = 0; i < node.items.size(); ++i)
        object.add(node.keys[i].text, to_json(node.items[i]));
      return object;
    }
  }
  return {};
}

}  // namespace xt
