#include "costmodel/io/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/io/files.h"

namespace xt {
namespace {

constexpr std::size_t deepest = 200;

/// Length of the scalar token that begins `rest`, up to the end of its line.
std::size_t token_length(std::string_view rest, std::string_view value) {
  rest = rest.substr(0, rest.find('\n'));
  if (rest.starts_with(value) && !value.empty()) return value.size();
  if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return 1;
  for (std::size_t at = 1; at < rest.size(); ++at) {
    const bool is_escape = rest[0] == '"' ? rest[at] == '\\' : rest.substr(at, 2) == "''";
    if (is_escape)
      ++at;
    else if (rest[at] == rest[0])
      return at + 1;
  }
  return rest.size();
}

/// Builds nodes from yaml-cpp's events.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const SourceText& source) : source_(source) {
    line_begins_.push_back(0);
    for (std::size_t at = 0; at < source.text.size(); ++at)
      if (source.text[at] == '\n') line_begins_.push_back(at + 1);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_document_, true)) fail(mark, "a second document begins here");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    put({}, mark_of(mark, ""));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases are not read", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool is_quoted = tag == "!";
    put(is_quoted || !reads_as_literal(value) ? text_node(value) : literal_node(value),
        mark_of(mark, value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(list_node(), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(map_node(), mark);
  }
  void OnMapEnd() override { close(); }

  Node take() { return std::move(root_); }

  [[noreturn]] void fail(const YAML::Mark& mark, std::string message, std::string hint = {}) {
    const Mark at = mark_of(mark, "");
    const Location where = {source_.path, at.line, at.column, at.length};
    throw InputError({{Severity::error, where, std::move(message), std::move(hint)}}, {source_});
  }

 private:
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) fail(mark, "anchors are not read", "write the value out where it is used");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.size() > 1) fail(mark, fmt::format("tag `{}` is not read", tag));
  }

  /// The place of a token that holds `value`.
  [[nodiscard]] Mark mark_of(const YAML::Mark& mark, std::string_view value) const {
    if (mark.is_null()) return {};
    const auto line = static_cast<std::size_t>(mark.line);
    const std::size_t at = line < line_begins_.size()
                               ? line_begins_[line] + static_cast<std::size_t>(mark.column)
                               : source_.text.size();
    const std::string_view rest =
        std::string_view(source_.text).substr(std::min(at, source_.text.size()));
    return {mark.line + 1, mark.column + 1, static_cast<int>(token_length(rest, value))};
  }

  void put(Node node, Mark mark) {
    node.mark = mark;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Node& parent = open_.back();
    if (parent.kind == Node::Kind::map && parent.keys.size() == parent.items.size()) {
      put_key(node);
      return;
    }
    // Lists, maps and nothings are pointed at by the key that names them.
    if (parent.kind == Node::Kind::map && node.kind != Node::Kind::scalar)
      node.mark = parent.keys.back().mark;
    parent.items.push_back(std::move(node));
  }
  void put_key(Node& node) {
    if (node.kind != Node::Kind::scalar) fail_at(node.mark, "a key must be one word");
    open_.back().keys.push_back({std::move(node.text), node.mark});
  }
  [[noreturn]] void fail_at(Mark mark, std::string message) {
    const Location where = {source_.path, mark.line, mark.column, mark.length};
    throw InputError({{Severity::error, where, std::move(message)}}, {source_});
  }
  void open(Node node, const YAML::Mark& mark) {
    if (open_.size() == deepest) fail(mark, "is nested too deeply");
    node.mark = mark_of(mark, "");
    open_.push_back(std::move(node));
  }
  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    const Mark mark = open_.empty() ? Mark{} : node.mark;
    put(std::move(node), mark);
  }

  const SourceText& source_;
  std::vector<std::size_t> line_begins_;
  bool has_document_ = false;
  Node root_;
  std::vector<Node> open_;
};

}  // namespace

Document parse_yaml(SourceText source) {
  Document document{std::move(source), {}};
  Builder builder(document.source);
  try {
    std::istringstream stream(document.source.text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    builder.fail(error.mark, fmt::format("is not YAML: {}", error.msg));
  }
  document.root = builder.take();
  return document;
}

Document read_yaml(const std::filesystem::path& path) {
  return parse_yaml({path.string(), read_file(path)});
}

}  // namespace xt
