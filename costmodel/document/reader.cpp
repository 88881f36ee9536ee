#include "costmodel/document/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "costmodel/diagnostics/nearest.h"

namespace xt {
namespace {

/// The first step of a path and the rest: "a.b" gives "a", "b"; "a[2].b" gives "a", "[2].b".
std::pair<std::string_view, std::string_view> split_step(std::string_view path) {
  const std::size_t end = path.starts_with('[') ? path.find(']') + 1 : path.find_first_of(".[");
  if (end >= path.size()) return {path, {}};
  const std::size_t rest = path[end] == '.' ? end + 1 : end;
  return {path.substr(0, end), path.substr(rest)};
}

const Node* item_at(const Node& list, std::string_view step) {
  std::size_t index = 0;
  std::from_chars(step.data() + 1, step.data() + step.size(), index);
  return index < list.items.size() ? &list.items[index] : nullptr;
}

}  // namespace

const Node* Reader::take(std::string_view name, std::string_view doc, bool is_required) {
  Scope& scope = scopes_.back();
  scope.known.emplace_back(name);
  const Node* node = find(*scope.node, name);
  if (node == nullptr && is_required) scope.missing.emplace_back(name, doc);
  return node;
}

void Reader::forgive(std::string_view name) {
  std::erase_if(scopes_.back().missing, [name](const auto& entry) { return entry.first == name; });
}

bool Reader::expect(const Node& node, Node::Kind kind, std::string_view type) {
  if (node.kind == kind) return true;
  problem(node, expected(type, node));
  return false;
}

bool Reader::enter(const Node& node) {
  if (!expect(node, Node::Kind::map, "a map")) return false;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Key& key = node.keys[i];
    const auto first = std::ranges::find(node.keys, key.text, &Key::text);
    if (first != node.keys.begin() + static_cast<std::ptrdiff_t>(i))
      problem_at(key.mark,
                 fmt::format("duplicate key `{}`, first at line {}", key.text, first->mark.line),
                 "");
  }
  scopes_.push_back({&node});
  return true;
}

void Reader::complete() {
  const Scope& scope = scopes_.back();
  for (const auto& [key, doc] : scope.missing)
    problem_at(scope.node->mark, fmt::format("missing key `{}`", key),
               doc.empty() ? "" : fmt::format("`{}`: {}", key, doc));
  for (const Key& key : scope.node->keys)
    if (std::ranges::find(scope.known, key.text) == scope.known.end())
      problem_at(key.mark, fmt::format("unknown key `{}`", key.text),
                 did_you_mean(key.text, scope.known, "known keys"));
}

void Reader::problem_at(Mark mark, std::string message, std::string hint) {
  problems_.push_back({Severity::error,
                       {document_.source.path, mark.line, mark.column, mark.length},
                       std::move(message),
                       std::move(hint)});
}

void Reader::problem(const Node& node, std::string message, std::string hint) {
  problem_at(node.mark, std::move(message), std::move(hint));
}

void Reader::problem(std::string_view path, std::string message, std::string hint) {
  problem_at(mark_of(path), std::move(message), std::move(hint));
}

Mark Reader::mark_of(std::string_view path) const {
  const Node* node = scopes_.empty() ? &document_.root : scopes_.back().node;
  while (!path.empty()) {
    const auto [step, rest] = split_step(path);
    const Node* next = step.starts_with('[') ? item_at(*node, step) : find(*node, step);
    if (next == nullptr) break;  // an absent key is reported where it would stand
    node = next;
    path = rest;
  }
  return node->mark;
}

int Reader::line_of(std::string_view path) const { return mark_of(path).line; }

void Reader::finish() const {
  if (!problems_.empty()) throw InputError(problems_, {document_.source});
}

}  // namespace xt
