// Nodes as YAML text; the inverse of yaml.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "costmodel/io/json.h"
#include "costmodel/io/yaml.h"

namespace xt {
namespace {

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Whether `text` can stand without quotes, in a block and between brackets.
bool is_plain(std::string_view text) {
  if (is_null_word(text) || reads_as_literal(text)) return false;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  constexpr std::string_view indicators = "-?:,[]{}#&*!|>'\"%@`=<";
  if (indicators.find(text.front()) != std::string_view::npos) return false;
  if (text.find_first_of(",[]{}\"\\") != std::string_view::npos) return false;
  if (text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos)
    return false;
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
}

std::string word(std::string_view text) {
  return is_plain(text) ? std::string(text) : json_quoted(text);
}

bool is_block(const Node& node) {
  if (node.items.empty()) return false;
  if (node.kind == Node::Kind::map) return true;
  return std::ranges::any_of(
      node.items, [](const Node& item) { return item.kind == Node::Kind::map || is_block(item); });
}

/// `node` on one line.
std::string inline_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::nothing:
      return "null";
    case Node::Kind::scalar:
      return node.is_text ? word(node.text) : node.text;
    case Node::Kind::map:
      return "{}";
    case Node::Kind::list:
      break;
  }
  std::string text = "[";
  for (const Node& item : node.items)
    text += fmt::format("{}{}", text.size() == 1 ? "" : ", ", inline_text(item));
  return text + "]";
}

void append_block(std::string& out, const Node& node, std::size_t indent, bool is_after_dash) {
  bool is_first = is_after_dash;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    if (!is_first) out += std::string(indent, ' ');
    is_first = false;
    const bool is_list = node.kind == Node::Kind::list;
    out += is_list ? "-" : word(node.keys[i].text) + ":";
    if (!is_block(item)) {
      out += " " + inline_text(item) + "\n";
      continue;
    }
    out += is_list ? " " : "\n";
    append_block(out, item, indent + 2, is_list);
  }
}

}  // namespace

std::string to_yaml(const Node& node) {
  if (!is_block(node)) return inline_text(node) + "\n";
  std::string out;
  append_block(out, node, 0, false);
  return out;
}

}  // namespace xt
