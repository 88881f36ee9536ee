#pragma once

// In which order packs are dealt to data-parallel ranks: rank r of `ranks` takes the packs at
// positions r, r + ranks, r + 2 · ranks, … of an order, so each row of `ranks` positions is
// processed at once. Knows packs by a number to compare them by, and no time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/packing/packs.h"

namespace xt {

/// To how many ranks packs are dealt, and in which steps.
///
/// Assumes: ranks ≥ 1 and packs_per_rank ≥ 1; ranks are data-parallel, so those that share a
///          sequence count as one. Another epoch has another seed
struct DealOptions {
  std::int64_t ranks = 1;
  std::int64_t packs_per_rank = 1;  ///< in one step
  std::uint64_t seed = 0;

  /// Packs of one step.
  [[nodiscard]] std::int64_t global_batch() const { return ranks * packs_per_rank; }
};

/// What packs are compared by when they are grouped: `attention_cost` of soft packs, the longest
/// sample of hard ones.
///
/// Source:  XTuner V1, datasets/packing.py, `longest` of each pack level
std::vector<std::int64_t> grouping_keys(std::span<const PackLayout> packs, PackLevel level);

/// Packs that are sorted together: whole steps, at most 50, and about a quarter of all packs.
///
/// Source:  XTuner V1, datasets/sampler.py, LengthGroupedSampler
std::int64_t grouping_window(std::size_t n_packs, const DealOptions& options);

/// The packs so ordered that those processed at once cost nearly the same attention.
///
/// Packs are shuffled and cut into windows. Each window is sorted by key, largest first and equals
/// as they were, and cut into groups of `ranks`; its groups are shuffled. The order begins anew
/// until it fills whole steps. If `ranks` does not divide the last window, its one short group may
/// stand before others, which then straddle two rows.
///
/// Source:  XTuner V1, datasets/sampler.py, LengthGroupedSampler with round_up
std::vector<std::uint32_t> grouped_order(std::span<const std::int64_t> keys,
                                         const DealOptions& options);

/// The packs shuffled; the order begins anew until it fills whole steps.
///
/// Source:  XTuner V1, datasets/sampler.py, ParallelSampler with round_up
std::vector<std::uint32_t> plain_order(std::size_t n_packs, const DealOptions& options);

}  // namespace xt
