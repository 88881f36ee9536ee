#pragma once

// What samples of different lengths do to a step: packs are not quite full, and ranks whose packs
// hold longer samples make the others wait. From packs drawn and dealt as the engine does it.

#include <cstdint>

#include "costmodel/packing/length_distribution.h"
#include "costmodel/packing/packs.h"
#include "planner/strategy.h"

namespace xt {

/// The load of packs dealt to ranks, seen over many steps. Squared lengths are those of one pack:
/// where several go through the layers in lock-step, their mean.
struct DataLoad {
  std::int64_t n_packs = 0;         ///< drawn
  double cut_ratio = 0;             ///< tokens beyond a pack, over the tokens of all samples
  double fill_ratio = 1;            ///< tokens of samples over tokens of packs
  double mean = 0;                  ///< squared lengths of a pack
  double largest_grouped = 0;       ///< of the ranks of a micro-step, packs grouped by length
  double largest_plain = 0;         ///< the same, packs shuffled
  std::int64_t longest_sample = 0;  ///< of any pack
};

/// Samples of the steps that data_load() draws at least.
double drawn_samples(const LengthDistribution& lengths, const Strategy& strategy);
/// More take minutes and memory that a host may not have (64 million: 14 s and 5.3 GB).
inline constexpr double most_drawn_samples = 5e7;

/// Draws samples, packs them, and deals the packs to the ranks of `strategy`.
///
/// Assumes: an epoch of 200 steps, or of as many as a million samples fill, but 4 at least, with
///          fewer micro-steps where even those take more; ranks that share a pack count as one; no
///          more than most_drawn_samples
/// Source:  XTuner V1: see costmodel/packing
DataLoad data_load(const LengthDistribution& lengths, PackLevel level, const Strategy& strategy,
                   std::uint64_t seed);

}  // namespace xt
