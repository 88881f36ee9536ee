// Products of matrices, single and grouped by expert.

#include <algorithm>

#include "costmodel/cost/classes.h"

namespace xt {
namespace {

bool is_input_backward(Kernel kernel) {
  return kernel == Kernel::matmul_input_backward || kernel == Kernel::matmul_input_backward_add ||
         kernel == Kernel::grouped_matmul_input_backward;
}

bool is_weight_backward(Kernel kernel) {
  return kernel == Kernel::matmul_weight_backward || kernel == Kernel::matmul_weight_backward_add ||
         kernel == Kernel::grouped_matmul_weight_backward;
}

// A measured product has its traffic in the measurement; memory never bounds it further.
Demand product_demand(const Pricing& pricing, double efficiency, double bytes) {
  Demand demand;
  const auto own = measured_efficiency(pricing);
  const Seconds matrix = matrix_time(pricing, hardware_flops(pricing.work, pricing.bindings),
                                     own.value_or(efficiency) * pricing.clock);
  const Seconds memory = memory_time(pricing, bytes);
  demand.on(Resource::matrix) = matrix;
  demand.on(Resource::hbm) = own ? std::min(memory, matrix) : memory;
  return demand;
}

}  // namespace

ProductShape product(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double m = extent(0);
  const double n = extent(1);
  const double k = extent(2);
  if (work.kernel == Kernel::orthogonalise) return {std::min(m, n), std::max(m, n), std::min(m, n)};
  if (is_input_backward(work.kernel)) return {m, k, n};
  if (is_weight_backward(work.kernel)) return {n, k, m};
  return {m, n, k};
}

/// (rows·inner + inner·columns + rows·columns) · width, the output twice if it is added to.
///
/// Shapes:  [rows, inner] · [inner, columns]
/// Assumes: each operand is touched once
/// Source:  Williams, Waterman, Patterson 2009, "Roofline", CACM 52(4)
double matmul_bytes(const Work& work, const Bindings& bindings) {
  if (work.kernel == Kernel::orthogonalise) return newton_schulz_bytes(work, bindings);
  const auto [rows, columns, inner] = product(work, bindings);
  const double output = rows * columns * (adds(work.kernel) ? 2 : 1);
  return (rows * inner + inner * columns + output) * static_cast<double>(width(work.dtype));
}

/// Flops / (peak · clock · base · rows(·) · columns(·) · inner(·)), beside the traffic of
/// matmul_bytes.
///
/// Attention keeps its rate: it draws less power, and its products wait for exponentials. Like
/// products that run at once fill the device as one with the rows of all.
/// Assumes: the three sides act on efficiency independently of each other
/// Source:  the shape of published GEMM sweeps; see the points of each profile
Demand matmul_demand(const Pricing& pricing) {
  const auto [rows, columns, inner] = product(pricing.work, pricing.bindings);
  const MatmulEfficiency& curves = pricing.profile.matmul;
  const double at_once = rows * std::max(1.0, pricing.extent(3));
  const double efficiency = curves.base.value * curves.rows.curve.at(at_once) *
                            curves.columns.curve.at(columns) * curves.inner.curve.at(inner);
  return product_demand(pricing, efficiency, matmul_bytes(pricing.work, pricing.bindings));
}

/// B · (m·k + k·n + m·n) · width
///
/// Shapes:  x [B,m,k], y [B,k,n], z [B,m,n]
/// Source:  derived from the operands
double batched_matmul_bytes(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double m = extent(1), n = extent(2), k = extent(3);
  return extent(0) * (m * k + k * n + m * n) * static_cast<double>(width(work.dtype));
}

/// As matmul_demand of one product with the rows of all.
///
/// Assumes: a batch fills the device as one product with as many rows does
/// Source:  the shape of published GEMM sweeps; see the points of each profile
Demand batched_matmul_demand(const Pricing& pricing) {
  const MatmulEfficiency& curves = pricing.profile.matmul;
  const double efficiency =
      curves.base.value * curves.rows.curve.at(pricing.extent(0) * pricing.extent(1)) *
      curves.columns.curve.at(pricing.extent(2)) * curves.inner.curve.at(pricing.extent(3));
  return product_demand(pricing, efficiency, batched_matmul_bytes(pricing.work, pricing.bindings));
}

/// (R·n + R·k + X·n·k) · width: the rows of every expert once and every weight once.
///
/// Shapes:  x [R,k], weight [X,n,k], y [R,n]
/// Source:  derived from the operands
double grouped_matmul_bytes(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double rows = extent(0);
  const double weights = extent(3) * extent(1) * extent(2);
  return (rows * extent(1) + rows * extent(2) + weights) * static_cast<double>(width(work.dtype));
}

/// As matmul_demand, with the curve over the mean rows of an expert in place of that over rows.
///
/// In the weight's backward pass the rows are the inner side, and the curve stands for it.
/// Assumes: rows are spread evenly over the experts
/// Source:  the shape of published grouped-GEMM sweeps; see the points of each profile
Demand grouped_matmul_demand(const Pricing& pricing) {
  const auto [rows, columns, inner] = product(pricing.work, pricing.bindings);
  const bool of_weight = is_weight_backward(pricing.work.kernel);
  const GroupedMatmulEfficiency& curves = pricing.profile.grouped_matmul;
  const MatmulEfficiency& sides = pricing.profile.matmul;
  const double rows_per_expert = pricing.extent(0) / std::max(1.0, pricing.extent(3));
  const double other_side = of_weight ? sides.rows.curve.at(rows) : sides.inner.curve.at(inner);
  const double efficiency = curves.base.value * curves.rows_per_expert.curve.at(rows_per_expert) *
                            sides.columns.curve.at(columns) * other_side;
  return product_demand(pricing, efficiency, grouped_matmul_bytes(pricing.work, pricing.bindings));
}

}  // namespace xt
