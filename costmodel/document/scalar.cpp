#include "costmodel/document/scalar.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/diagnostics/nearest.h"

namespace xt {

std::string expected(std::string_view type, const Node& node) {
  return fmt::format("expected {}, found {}", type, found(node));
}

std::string one_of_words(const std::vector<std::string_view>& words) {
  return "one of " + listed(words);
}

Parsed<std::size_t> position_among(const std::vector<std::string_view>& words,
                                   std::string_view name, const Node& node) {
  using Result = Parsed<std::size_t>;
  if (node.kind != Node::Kind::scalar) return Result::failed(expected(one_of_words(words), node));
  const auto position = std::ranges::find(words, node.text);
  if (position == words.end())
    return Result::failed(fmt::format("unknown {} `{}`", name, node.text),
                          did_you_mean(node.text, words, "known"));
  return {static_cast<std::size_t>(position - words.begin())};
}

Parsed<bool> Scalar<bool>::read(const Node& node, std::string_view) {
  const bool is_truth = node.kind == Node::Kind::scalar && !node.is_text &&
                        (node.text[0] == 't' || node.text[0] == 'f');
  if (!is_truth) return Parsed<bool>::failed(expected(type(), node));
  return {node.text == "true"};
}

Parsed<std::int64_t> Scalar<std::int64_t>::read(const Node& node, std::string_view) {
  if (node.kind != Node::Kind::scalar || node.is_text)
    return Parsed<std::int64_t>::failed(expected(type(), node));
  return parse_integer(node.text);
}

Parsed<double> Scalar<double>::read(const Node& node, std::string_view) {
  if (node.kind != Node::Kind::scalar || node.is_text)
    return Parsed<double>::failed(expected(type(), node));
  return parse_number(node.text);
}

Node Scalar<double>::write(double value) { return literal_node(fmt::format("{}", value)); }

Parsed<std::string> Scalar<std::string>::read(const Node& node, std::string_view) {
  if (node.kind != Node::Kind::scalar) return Parsed<std::string>::failed(expected(type(), node));
  if (!node.is_text)
    return Parsed<std::string>::failed(expected(type(), node),
                                       fmt::format("write \"{}\" if text is meant", node.text));
  return {node.text};
}

}  // namespace xt
