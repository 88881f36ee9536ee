#pragma once

// One row of a batch: samples one after the other. Attention stays inside a sample, and so do
// labels.

#include <cstdint>
#include <span>
#include <vector>

namespace xt {

/// The label of a token whose successor is not to be predicted.
inline constexpr std::int64_t ignored_label = -100;

/// Samples, or pieces of them, one after the other.
///
/// Shapes: tokens [T], labels [T]; piece i is tokens boundaries[i] to boundaries[i + 1]
struct Pack {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;      ///< next token of the same piece; of its last: ignored
  std::vector<std::int32_t> boundaries;  ///< 0, …, T
  std::int64_t padding = 0;              ///< of the T tokens, so many at the end are none

  bool operator==(const Pack&) const = default;
};

/// The pack of `pieces` in this order.
Pack pack_of(const std::vector<std::vector<std::int64_t>>& pieces);

/// Makes `pack` as long as `pack_length` by pieces of token 0, none longer than `longest_piece`, no
/// label of which counts.
///
/// Assumes: pack has no more tokens, and longest_piece ≥ 1
/// Source:  XTuner V1, datasets/collator.py, which pads by separate sequences of 256 tokens
void pad(Pack& pack, std::int64_t pack_length, std::int64_t longest_piece);

/// The sum over pieces of their squared lengths: what causal attention costs.
std::int64_t sum_squared_lengths(const Pack& pack);

/// The length of the longest piece.
std::int64_t longest_sample(const Pack& pack);

/// Labels that are not ignored.
std::int64_t n_valid_labels(std::span<const std::int64_t> labels);

/// The position of each token in its piece.
std::vector<std::int64_t> positions(const Pack& pack);

}  // namespace xt
