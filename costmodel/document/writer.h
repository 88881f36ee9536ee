#pragma once

// Structs to documents: the inverse of `reader.h`, through the same `describe`.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "costmodel/document/node.h"
#include "costmodel/document/scalar.h"
#include "costmodel/document/shape.h"

namespace xt {

template <typename T>
Node write(const T& value);

/// A field whose limits do not matter because nothing is read.
struct WrittenField {
  WrittenField& optional() { return *this; }
  WrittenField& one_of(const auto&) { return *this; }
  WrittenField& at_least(const auto&) { return *this; }
  WrittenField& at_most(const auto&) { return *this; }
  WrittenField& above(const auto&) { return *this; }
};

/// The archive that turns each field into a key; an empty optional becomes no key.
class Writer {
 public:
  /// One key of the struct being written; called from `describe`.
  template <typename T>
  WrittenField field(std::string_view name, const T& member, std::string_view) {
    if constexpr (is_optional<T>) {
      if (member) add(map_, std::string(name), write(*member));
    } else {
      add(map_, std::string(name), write(member));
    }
    return {};
  }

  [[nodiscard]] Node take() { return std::move(map_); }

 private:
  Node map_ = map_node();
};

/// `value` as a node that reads back to an equal value.
template <typename T>
Node write(const T& value) {
  if constexpr (std::is_same_v<T, Node>) {
    return value;
  } else if constexpr (IsScalar<T>) {
    return Scalar<T>::write(value);
  } else if constexpr (is_optional<T>) {
    return value ? write(*value) : Node{};
  } else if constexpr (is_list<T>) {
    Node list = list_node();
    for (const auto& item : value) list.items.push_back(write(item));
    return list;
  } else if constexpr (is_pair<T>) {
    return list_node({write(value.first), write(value.second)});
  } else if constexpr (is_named<T>) {
    Node map = map_node();
    for (const auto& [key, item] : value.entries) add(map, key, write(item));
    return map;
  } else {
    Writer writer;
    T copy = value;  // `describe` takes its members by reference
    copy.describe(writer);
    return writer.take();
  }
}

}  // namespace xt
