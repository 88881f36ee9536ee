#pragma once

// A parsed file as plain data: scalars, lists and maps that remember where they stood. Knows
// neither YAML nor JSON; both become this, and structs are read from it by `reader.h`.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/diagnostics/diagnostic.h"

namespace xt {

/// Where something stands in its file; line and column count from 1, line 0 means nowhere.
struct Mark {
  int line = 0;
  int column = 0;
  int length = 0;
};

/// The name of a map's item.
struct Key {
  std::string text;
  Mark mark = {};
};

/// A value in a file. A list or map that is the value of a key is marked at that key.
struct Node {
  enum class Kind : std::uint8_t { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  Mark mark = {};
  /// A scalar as written, without quotes.
  std::string text = {};
  /// A scalar that is quoted, or that reads neither as a number nor as true or false.
  bool is_text = false;
  /// A map's keys, in file order and possibly twice; `items[i]` belongs to `keys[i]`.
  std::vector<Key> keys = {};
  std::vector<Node> items = {};
};

/// A file's content and the text it came from.
struct Document {
  SourceText source;
  Node root;
};

/// Items by name, in the order of their file.
template <typename T>
struct Named {
  std::vector<std::pair<std::string, T>> entries;

  auto operator<=>(const Named&) const = default;

  /// The item called `name`, or null.
  const T* find(std::string_view name) const {
    for (const auto& [key, value] : entries)
      if (key == name) return &value;
    return nullptr;
  }
};

/// A scalar holding text.
Node text_node(std::string text);
/// A scalar holding a number, or true or false, as written.
Node literal_node(std::string text);
/// A list.
Node list_node(std::vector<Node> items = {});
/// A map without keys.
Node map_node();
/// Appends `item` to `map` under `key`.
void add(Node& map, std::string key, Node item);

/// The first item of `map` called `key`, or null.
const Node* find(const Node& map, std::string_view key);

/// Whether unquoted `text` reads as a number, or as true or false, and so is not text.
bool reads_as_literal(std::string_view text);

/// What stands at `node`, for messages: "`abc`", "the text `7`", "a list", "nothing".
std::string found(const Node& node);

}  // namespace xt
