#pragma once

// Fills structs from a document and collects every problem with its position. A struct says each
// of its fields once, in `describe`, and may add `check` for what involves several of them:
//
//   struct Swap {
//     std::string policy;
//     Bytes budget;
//     int prefetch_layers = 1;
//
//     template <typename Archive>
//     void describe(Archive& archive) {
//       archive.field("policy", policy, "How to choose what leaves the device").one_of(policies);
//       archive.field("budget", budget, "Device memory a step may use at its peak");
//       archive.field("prefetch_layers", prefetch_layers, "Layers fetched ahead of use")
//           .optional()
//           .at_least(1);
//     }
//     void check(Reader& reader) const;  // reader.problem("budget", "…", "…")
//   };
//
// A key is required unless its member is a std::optional or the field is `.optional()`, which
// keeps the member's initialiser.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/document/node.h"
#include "costmodel/document/scalar.h"
#include "costmodel/document/shape.h"

namespace xt {

class Reader;

/// A field that was just read; the limits it must keep. Limits apply to each element of a list.
template <typename T>
class ReadField {
 public:
  using Value = typename Leaf<T>::type;

  ReadField(Reader& reader, std::string_view name, const Node* node, const T& member)
      : reader_(reader), name_(name), node_(node), member_(member) {}

  /// The key may be absent; the member then keeps its initial value.
  ReadField& optional();
  /// The value must be one of `words`.
  template <typename Range>
  ReadField& one_of(const Range& words);
  ReadField& at_least(const Value& bound);
  ReadField& at_most(const Value& bound);
  /// The value must be greater than `bound`.
  ReadField& above(const Value& bound);

 private:
  template <typename Keeps>
  ReadField& limit(std::string_view rule, const Value& bound, const Keeps& keeps);
  template <typename Visit>
  void for_each(const Node& node, const auto& value, const Visit& visit);

  Reader& reader_;
  std::string_view name_;
  const Node* node_;  // null when the key is absent or its value was refused
  const T& member_;
};

/// Reads structs from one document.
///
/// Assumes: the document outlives the reader
class Reader {
 public:
  explicit Reader(const Document& document) : document_(document) {}

  /// Fills `value` from the root; false when there were problems.
  template <typename T>
  bool read(T& value) {
    return read(document_.root, value);
  }
  /// Fills `value` from `node` of the same document; false when there were problems.
  template <typename T>
  bool read(const Node& node, T& value) {
    return read_value(node, value, "value");
  }

  /// One key of the struct being read; called from `describe`.
  template <typename T>
  ReadField<T> field(std::string_view name, T& member, std::string_view doc) {
    const Node* node = take(name, doc, !is_optional<T>);
    const bool is_read = node != nullptr && read_value(*node, member, name);
    return ReadField<T>(*this, name, is_read ? node : nullptr, member);
  }

  /// Reports what is wrong with the value at `path` ("heads", "links.nvlink.rate", "layers[2]"),
  /// counted from the struct being read or checked, else from the root.
  void problem(std::string_view path, std::string message, std::string hint = {});
  /// Reports what is wrong with `node`.
  void problem(const Node& node, std::string message, std::string hint = {});

  /// The line of the value at `path`, for "heads is 7, set at line 3"; 0 when it is not in the
  /// file.
  [[nodiscard]] int line_of(std::string_view path) const;

  [[nodiscard]] const Document& document() const { return document_; }
  [[nodiscard]] const std::vector<Diagnostic>& problems() const { return problems_; }
  [[nodiscard]] bool ok() const { return problems_.empty(); }

  /// Throws: InputError with all problems, sorted by position, if there are any
  void finish() const;

 private:
  template <typename T>
  friend class ReadField;

  struct Scope {
    const Node* node = nullptr;
    std::vector<std::string> known = {};
    std::vector<std::pair<std::string, std::string>> missing = {};  // key, doc
  };

  const Node* take(std::string_view name, std::string_view doc, bool is_required);
  void forgive(std::string_view name);
  bool enter(const Node& node);
  void complete();
  void leave() { scopes_.pop_back(); }
  void problem_at(Mark mark, std::string message, std::string hint);
  [[nodiscard]] Mark mark_of(std::string_view path) const;
  bool expect(const Node& node, Node::Kind kind, std::string_view type);

  template <typename T>
  bool read_value(const Node& node, T& value, std::string_view name);
  template <typename T>
  bool read_items(const Node& node, std::vector<T>& value, std::string_view name);
  template <typename A, typename B>
  bool read_pair(const Node& node, std::pair<A, B>& value, std::string_view name);
  template <typename T>
  bool read_named(const Node& node, Named<T>& value);
  template <typename T>
  bool read_struct(const Node& node, T& value);

  const Document& document_;
  std::vector<Diagnostic> problems_;
  std::vector<Scope> scopes_;
};

/// The struct written in `document`.
///
/// Throws: InputError with all problems of the document
template <typename T>
T read(const Document& document) {
  Reader reader(document);
  T value;
  reader.read(value);
  reader.finish();
  return value;
}

template <typename T>
bool Reader::read_value(const Node& node, T& value, std::string_view name) {
  if constexpr (std::is_same_v<T, Node>) {
    value = node;
    return true;
  } else if constexpr (IsScalar<T>) {
    Parsed<T> parsed = Scalar<T>::read(node, name);
    if (!parsed.value) {
      problem(node, std::move(parsed.problem), std::move(parsed.hint));
      return false;
    }
    value = std::move(*parsed.value);
    return true;
  } else if constexpr (is_optional<T>) {
    if (node.kind == Node::Kind::nothing) return true;
    return read_value(node, value.emplace(), name);
  } else if constexpr (is_list<T>) {
    return read_items(node, value, name);
  } else if constexpr (is_pair<T>) {
    return read_pair(node, value, name);
  } else if constexpr (is_named<T>) {
    return read_named(node, value);
  } else {
    return read_struct(node, value);
  }
}

template <typename T>
bool Reader::read_items(const Node& node, std::vector<T>& value, std::string_view name) {
  if (!expect(node, Node::Kind::list, "a list")) return false;
  value.clear();
  bool all_read = true;
  for (const Node& item : node.items) {
    T element{};
    all_read = read_value(item, element, name) && all_read;
    value.push_back(std::move(element));
  }
  return all_read;
}

template <typename A, typename B>
bool Reader::read_pair(const Node& node, std::pair<A, B>& value, std::string_view name) {
  if (!expect(node, Node::Kind::list, "a list of two")) return false;
  if (node.items.size() != 2) {
    problem(node, "expected two values, found " + std::to_string(node.items.size()));
    return false;
  }
  const bool first_read = read_value(node.items[0], value.first, name);
  return read_value(node.items[1], value.second, name) && first_read;
}

template <typename T>
bool Reader::read_named(const Node& node, Named<T>& value) {
  if (!enter(node)) return false;
  value.entries.clear();
  bool all_read = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    T element{};
    all_read = read_value(node.items[i], element, node.keys[i].text) && all_read;
    value.entries.emplace_back(node.keys[i].text, std::move(element));
  }
  leave();
  return all_read;
}

template <typename T>
bool Reader::read_struct(const Node& node, T& value) {
  const std::size_t before = problems_.size();
  if (!enter(node)) return false;
  value.describe(*this);
  complete();
  if constexpr (requires { value.check(*this); }) {
    if (problems_.size() == before) value.check(*this);
  }
  leave();
  return problems_.size() == before;
}

template <typename T>
ReadField<T>& ReadField<T>::optional() {
  reader_.forgive(name_);
  return *this;
}

template <typename T>
template <typename Range>
ReadField<T>& ReadField<T>::one_of(const Range& words) {
  const std::vector<std::string_view> known(std::begin(words), std::end(words));
  if (node_ == nullptr) return *this;
  for_each(*node_, member_, [&](const Node& node, const Value&) {
    auto position = position_among(known, name_, node);
    if (!position.value)
      reader_.problem(node, std::move(position.problem), std::move(position.hint));
  });
  return *this;
}

template <typename T>
ReadField<T>& ReadField<T>::at_least(const Value& bound) {
  return limit("at least", bound, [&](const Value& value) { return value >= bound; });
}

template <typename T>
ReadField<T>& ReadField<T>::at_most(const Value& bound) {
  return limit("at most", bound, [&](const Value& value) { return value <= bound; });
}

template <typename T>
ReadField<T>& ReadField<T>::above(const Value& bound) {
  return limit("above", bound, [&](const Value& value) { return value > bound; });
}

template <typename T>
template <typename Keeps>
ReadField<T>& ReadField<T>::limit(std::string_view rule, const Value& bound, const Keeps& keeps) {
  if (node_ == nullptr) return *this;
  for_each(*node_, member_, [&](const Node& node, const Value& value) {
    if (keeps(value)) return;
    reader_.problem(node, std::string(name_) + " is `" + node.text + "`, must be " +
                              std::string(rule) + " `" + Scalar<Value>::write(bound).text + "`");
  });
  return *this;
}

template <typename T>
template <typename Visit>
void ReadField<T>::for_each(const Node& node, const auto& value, const Visit& visit) {
  using V = std::remove_cvref_t<decltype(value)>;
  if constexpr (is_optional<V>) {
    if (value) for_each(node, *value, visit);
  } else if constexpr (is_list<V>) {
    for (std::size_t i = 0; i < value.size(); ++i) for_each(node.items[i], value[i], visit);
  } else {
    visit(node, value);
  }
}

}  // namespace xt
