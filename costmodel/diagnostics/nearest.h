#pragma once

// "Did you mean": the known word closest to a misspelt one.

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xt {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Whether `distance` is small enough for a word as long as `word` to be a slip of the keyboard.
bool is_near(std::string_view word, std::size_t distance);

/// The candidate nearest to `word`, the first of equals; none when all are far away.
template <typename Range>
std::optional<std::string> nearest(std::string_view word, const Range& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (!is_near(word, distance) || (best && distance >= best_distance)) continue;
    best = std::string(candidate);
    best_distance = distance;
  }
  return best;
}

/// Words in backticks, separated by commas.
std::string listed(const std::vector<std::string_view>& words);

/// A hint: "did you mean `x`?" when one is near, else "`what`: `a`, `b`, …".
template <typename Range>
std::string did_you_mean(std::string_view word, const Range& candidates, std::string_view what) {
  if (const auto near = nearest(word, candidates)) return "did you mean `" + *near + "`?";
  const std::vector<std::string_view> words(std::begin(candidates), std::end(candidates));
  return std::string(what) + ": " + listed(words);
}

}  // namespace xt
