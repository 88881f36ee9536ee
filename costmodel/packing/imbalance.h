#pragma once

// How unequally loaded ranks are. Ranks wait for each other in every micro-step, so a micro-step
// takes as long as its largest load and not as its mean one. Loads are counts; what they take of a
// machine's time is a time model's affair.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/packing/packs.h"

namespace xt {

/// One kind of load of the ranks of one micro-step.
struct RankLoad {
  double mean = 0;           ///< over ranks
  std::int64_t largest = 0;  ///< of any rank

  bool operator==(const RankLoad&) const = default;
};

/// What the ranks process at once, one pack each.
///
/// Assumes: tokens are those of samples; an engine that pads packs to one length computes its
///          linear parts on that length instead
struct MicroStepLoad {
  RankLoad squared_lengths;  ///< PackLayout::sum_squared_lengths
  RankLoad tokens;           ///< PackLayout::tokens

  bool operator==(const MicroStepLoad&) const = default;
};

/// The loads of each micro-step, in the order in which they run.
///
/// Assumes: the order's length is a multiple of `ranks`. The pack with most squared lengths need
///          not be the one with most tokens, so a time that adds both is an upper bound
std::vector<MicroStepLoad> micro_step_loads(std::span<const PackLayout> packs,
                                            std::span<const std::uint32_t> order,
                                            std::int64_t ranks);

/// Values of which 5, 50, 95 and 100 percent lie at or below.
struct Quantiles {
  std::int64_t p5 = 0;
  std::int64_t p50 = 0;
  std::int64_t p95 = 0;
  std::int64_t largest = 0;

  bool operator==(const Quantiles&) const = default;
};

/// One kind of load over many micro-steps.
struct LoadSummary {
  double mean = 0;             ///< over micro-steps, of the mean over ranks
  double mean_of_largest = 0;  ///< over micro-steps, of the largest over ranks
  Quantiles micro_steps;       ///< of the largest over ranks
  Quantiles steps;             ///< of a step's sum of the largest over ranks

  bool operator==(const LoadSummary&) const = default;

  /// By what factor waiting lengthens the part of a step that grows with this load: 1 if all ranks
  /// carry the same.
  [[nodiscard]] double imbalance() const { return mean > 0 ? mean_of_largest / mean : 1; }
};

/// All loads over many micro-steps.
struct Imbalance {
  std::size_t n_micro_steps = 0;
  LoadSummary squared_lengths;
  LoadSummary tokens;

  bool operator==(const Imbalance&) const = default;
};

/// Which ranks take packs, how many each in a step, and how many of these go through the layers in
/// lock-step, as if they were one.
struct Takers {
  std::int64_t ranks = 1;
  std::int64_t packs_per_rank = 1;
  std::int64_t together = 1;
};

/// How unequal `packs` are when they are dealt in `order` to `takers`, who take them one after the
/// other, or several together.
///
/// Assumes: the order's length is a multiple of ranks · packs_per_rank, as `grouped_order` and
///          `plain_order` return it; packs_per_rank is a multiple of `together`
Imbalance imbalance(std::span<const PackLayout> packs, std::span<const std::uint32_t> order,
                    const Takers& takers);

}  // namespace xt
