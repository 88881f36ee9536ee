#pragma once

// Calibration on whole steps: one factor per class of kernels, found from many steps of which only
// the time is known.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace xt {

/// Classes that get a factor of their own.
enum class ScaledClass : std::uint8_t { products, attention, memory_bound };

inline constexpr std::size_t n_scaled_classes = 3;
using ClassFactors = std::array<double, n_scaled_classes>;

/// A step as predicted, over its measured time: what the ops of each class take one after the
/// other, and what the step takes beside them.
struct StepShares {
  ClassFactors of_class{};
  double rest = 0;
};

/// Factors that bring predicted steps onto measured ones.
///
///   minimise Σ (Σ_c s_c·share_c + rest − 1)² / σ² + Σ_c (s_c − 1)² / τ²
///
/// with σ = 0.1, by which a step is off that nothing explains, and τ = 0.25, by which the numbers
/// of a class may be (the deviation of the grade `estimate`, planner/estimate/evidence.h); within
/// 1/3 and 3. Without steps all are one.
///
/// Assumes: a class is as far off in every step; overlap does not change with the factors
/// Source:  Hoerl and Kennard 1970, "Ridge Regression", Technometrics 12(1), towards one
ClassFactors fit_classes(std::span<const StepShares> steps);

}  // namespace xt
