#include "executor/data/pack.h"

#include <algorithm>
#include <numeric>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::int64_t padding_length = 256;

template <typename Visit>
void for_each_length(const Pack& pack, const Visit& visit) {
  for (std::size_t i = 1; i < pack.boundaries.size(); ++i)
    visit(std::int64_t{pack.boundaries[i]} - pack.boundaries[i - 1]);
}

}  // namespace

Pack pack_of(const std::vector<std::vector<std::int64_t>>& pieces) {
  Pack pack{{}, {}, {0}};
  for (const auto& piece : pieces) {
    pack.labels.insert(pack.labels.end(), piece.begin() + 1, piece.end());
    pack.labels.push_back(ignored_label);
    pack.tokens.insert(pack.tokens.end(), piece.begin(), piece.end());
    pack.boundaries.push_back(static_cast<std::int32_t>(pack.tokens.size()));
  }
  return pack;
}

void pad(Pack& pack, std::int64_t pack_length, std::int64_t longest_piece) {
  XT_CHECK(std::ssize(pack.tokens) <= pack_length && longest_piece >= 1, pack.tokens.size(),
           pack_length, longest_piece);
  pack.padding += pack_length - std::ssize(pack.tokens);
  const std::int64_t piece = std::min(longest_piece, padding_length);
  for (std::int64_t at = std::ssize(pack.tokens); at < pack_length; at += piece)
    pack.boundaries.push_back(static_cast<std::int32_t>(std::min(at + piece, pack_length)));
  pack.tokens.resize(static_cast<std::size_t>(pack_length), 0);
  pack.labels.resize(static_cast<std::size_t>(pack_length), ignored_label);
}

std::int64_t sum_squared_lengths(const Pack& pack) {
  std::int64_t sum = 0;
  for_each_length(pack, [&](std::int64_t length) { sum += length * length; });
  return sum;
}

std::int64_t longest_sample(const Pack& pack) {
  std::int64_t longest = 0;
  for_each_length(pack, [&](std::int64_t length) { longest = std::max(longest, length); });
  return longest;
}

std::int64_t n_valid_labels(std::span<const std::int64_t> labels) {
  return std::ssize(labels) - std::ranges::count(labels, ignored_label);
}

std::vector<std::int64_t> positions(const Pack& pack) {
  std::vector<std::int64_t> result(pack.tokens.size());
  for (std::size_t i = 1; i < pack.boundaries.size(); ++i)
    std::iota(result.begin() + pack.boundaries[i - 1], result.begin() + pack.boundaries[i], 0);
  return result;
}

}  // namespace xt
