#include "costmodel/document/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/units/parse.h"

namespace xt {

Node text_node(std::string text) {
  return {.kind = Node::Kind::scalar, .text = std::move(text), .is_text = true};
}

Node literal_node(std::string text) {
  return {.kind = Node::Kind::scalar, .text = std::move(text), .is_text = false};
}

Node list_node(std::vector<Node> items) {
  return {.kind = Node::Kind::list, .items = std::move(items)};
}

Node map_node() { return {.kind = Node::Kind::map}; }

void add(Node& map, std::string key, Node item) {
  map.keys.push_back({std::move(key), {}});
  map.items.push_back(std::move(item));
}

const Node* find(const Node& map, std::string_view key) {
  const auto found = std::ranges::find(map.keys, key, &Key::text);
  if (found == map.keys.end()) return nullptr;
  return &map.items[static_cast<std::size_t>(found - map.keys.begin())];
}

bool reads_as_literal(std::string_view text) {
  if (text == "true" || text == "false") return true;
  const bool is_all_digits =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  return is_all_digits || parse_number(text).value.has_value();
}

std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::nothing:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  const bool is_misleading = node.is_text && reads_as_literal(node.text);
  return fmt::format("{}`{}`", is_misleading ? "the text " : "", node.text);
}

}  // namespace xt
