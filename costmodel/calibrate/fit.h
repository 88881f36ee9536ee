#pragma once

// Calibration: one factor per kernel that brings predicted durations onto measured ones, found
// robustly and kept within what is physically possible.

#include <span>
#include <vector>

#include "costmodel/ir/kernel.h"
#include "costmodel/units/quantity.h"

namespace xt {

/// All ops of one work in one measured plan.
struct Observation {
  Kernel kernel{};
  Seconds predicted;  ///< of one op
  Seconds measured;   ///< of one op: mean within a step, median over steps
  double count = 1;   ///< ops per step
  Seconds floor;      ///< of one op at the machine's peaks; zero where there is no such bound
};

/// The factor of one kernel.
struct KernelScale {
  Kernel kernel{};
  double scale = 1;
  std::size_t n_observations = 0;
  double residual_ratio = 0;  ///< median |error| that is left
};

/// One factor per observed kernel.
///
///   minimise Σ wᵢ ρ(rᵢ), rᵢ = s·predictedᵢ / measuredᵢ − 1, wᵢ = countᵢ · measuredᵢ
///
/// with Huber's ρ at k = 1.345 · MAD / 0.6745, by iteratively reweighted least squares. Time
/// counts: what a step spends long on weighs most. A factor never takes an op below its floor, and
/// stays within 1/5 and 5.
///
/// Source:  Huber 1981, "Robust Statistics", §7.8; Holland and Welsch 1977 for the constant
std::vector<KernelScale> fit_scales(std::span<const Observation> observations);

}  // namespace xt
