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
         kernel == Kernel::grouped_matmul_weight_backward ||
         kernel == Kernel::grouped_matmul_weight_backward_add;
}

// Positions in the rows of products of experts.
constexpr std::size_t apart = 5;

// Bytes of a number that a product is added to; 0 for its own.
std::int64_t sum_bytes(const Work& work) {
  const bool is_grouped = kernel_class(work.kernel) == KernelClass::grouped_matrix;
  return work.extents[is_grouped ? 6 : 4].code;
}

// What a product that adds moves further, of `elements` that it is added to.
double further_bytes(const Work& work, double elements) {
  const std::int64_t own = width(work.dtype), each = sum_bytes(work) == 0 ? own : sum_bytes(work);
  return elements * static_cast<double>(2 * each - own);
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

// A gradient that is kept in a dtype of its own passes device memory behind the product.
//
// Source: SimuMax's measured kernels of B200 (profiles/b200.yaml): products of experts of 128 to
// 1232 rows take 0.3 to 0.9 of that traffic longer where they add in fp32, 0.67 in the median
Demand with_sums(const Pricing& pricing, Demand demand, double elements) {
  if (!adds(pricing.work.kernel) || sum_bytes(pricing.work) == 0) return demand;
  const double further = further_bytes(pricing.work, elements);
  demand.on(Resource::matrix) = demand.on(Resource::matrix) + memory_time(pricing, further);
  return demand;
}

}  // namespace

bool is_apart(const Work& work) {
  return kernel_class(work.kernel) == KernelClass::grouped_matrix &&
         work.extents[apart] != Extent{};
}

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
  const double written = rows * columns * static_cast<double>(width(work.dtype));
  const double further = adds(work.kernel) ? further_bytes(work, rows * columns) : 0;
  return (rows + columns) * inner * static_cast<double>(width(work.dtype)) + written + further;
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
  const Demand demand =
      product_demand(pricing, efficiency, matmul_bytes(pricing.work, pricing.bindings));
  return is_weight_backward(pricing.work.kernel) ? with_sums(pricing, demand, rows * columns)
                                                 : demand;
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

/// (R·n + R·k + X·n·k) · width: the rows of every expert once and every weight once, or in its
/// place the sum that the product is added to, read and written.
///
/// Shapes:  x [R,k], weight [X,n,k], y [R,n]
/// Source:  derived from the operands
double grouped_matmul_bytes(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double rows = extent(0), weights = extent(3) * extent(1) * extent(2);
  const double each = static_cast<double>(width(work.dtype));
  const double further = adds(work.kernel) ? further_bytes(work, weights) : 0;
  return rows * (extent(1) + extent(2)) * each + weights * each + further;
}

namespace {

/// The share of the matrix units' peak that products of all experts reach. One kernel for all of
/// them has a curve over the mean rows of an expert in place of that over rows; experts that are
/// apart have products like any others, of that many rows. In the weight's backward pass the rows
/// are the inner side.
///
/// Assumes: rows are spread evenly over the experts; products on several streams gain what their
///          ends would lose
/// Source:  the shape of published grouped-GEMM sweeps; see the points of each profile. Transformer
///          Engine, common/gemm/cublaslt_gemm.cu, nvte_multi_stream_cublas_gemm, a product of
///          cuBLAS for each expert; SimuMax's measured kernels of B200 (profiles/b200.yaml), where
///          these are 0.93 to 1 of single products from 1024 rows on
double grouped_efficiency(const Pricing& pricing) {
  const auto [rows, columns, inner] = product(pricing.work, pricing.bindings);
  const bool of_weight = is_weight_backward(pricing.work.kernel);
  const GroupedMatmulEfficiency& curves = pricing.profile.grouped_matmul;
  const MatmulEfficiency& sides = pricing.profile.matmul;
  const double of_expert = pricing.extent(0) / std::max(1.0, pricing.extent(3));
  const double other_side = of_weight ? sides.rows.curve.at(rows) : sides.inner.curve.at(inner);
  const double columns_side = sides.columns.curve.at(columns) * other_side;
  if (!is_apart(pricing.work))
    return curves.base.value * curves.rows_per_expert.curve.at(of_expert) * columns_side;
  const SourcedCurve& side = of_weight ? sides.inner : sides.rows;
  return sides.base.value * side.curve.at(of_expert) * columns_side;
}

}  // namespace

/// As matmul_demand, at grouped_efficiency().
Demand grouped_matmul_demand(const Pricing& pricing) {
  const double bytes = grouped_matmul_bytes(pricing.work, pricing.bindings);
  Demand demand = product_demand(pricing, grouped_efficiency(pricing), bytes);
  const double weights = pricing.extent(3) * pricing.extent(1) * pricing.extent(2);
  return with_sums(pricing, demand, weights);
}

}  // namespace xt
