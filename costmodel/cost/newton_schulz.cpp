// Matrices made orthogonal by Newton-Schulz iterations.

#include <algorithm>

#include "costmodel/cost/classes.h"

namespace xt {
namespace {

constexpr double iterations = 5;

struct Sides {
  double shorter, longer;
};

Sides sides(const Work& work, const Bindings& bindings) {
  const auto m = static_cast<double>(work.extent(0, bindings)),
             n = static_cast<double>(work.extent(1, bindings));
  return {std::min(m, n), std::max(m, n)};
}

}  // namespace

/// 5 · (4·s²·l + 2·s³): A = X·Xᵀ, A·A, and the product of their polynomial with X.
///
/// Shapes:  X [s,l]
/// Source:  Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
double newton_schulz_flops(const Work& work, const Bindings& bindings) {
  const auto [s, l] = sides(work, bindings);
  return iterations * (4 * s * s * l + 2 * s * s * s);
}

/// 5 · (7·s·l + 8·s²) · 4: every operand of the three products and of the two sums once.
///
/// Assumes: fp32
/// Source:  derived from the operands
double newton_schulz_bytes(const Work& work, const Bindings& bindings) {
  constexpr double fp32_bytes = 4;
  const auto [s, l] = sides(work, bindings);
  return iterations * (7 * s * l + 8 * s * s) * fp32_bytes;
}

}  // namespace xt
