// Causal attention over packed documents; products of attention that is not fused are in
// matmul.cpp.

#include <algorithm>

#include "costmodel/cost/classes.h"

namespace xt {

double scored_pairs_twice(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double tokens = extent(0), squares = extent(4), reach = extent(5);
  if (squares <= reach * tokens) return squares;
  return tokens * (2 * reach - reach * reach * tokens / squares);
}

/// Query, key, value and output once; backward reads them and the output's gradient and writes
/// three gradients.
///
///   forward 2·(H·T + K·S)·D·width    backward 4·(H·T + K·S)·D·width
///
/// Shapes:  q, o [T,H,D]; k, v [S,K,D]
/// Assumes: scores never leave the chip
/// Source:  Dao et al. 2022, "FlashAttention", arXiv 2205.14135, section 3
double attention_bytes(const Work& work, const Bindings& bindings) {
  if (work.kernel == Kernel::batched_matmul) return batched_matmul_bytes(work, bindings);
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double rows = extent(1) * extent(0) + extent(2) * extent(6);
  const double times = work.kernel == Kernel::attention_backward ? 4 : 2;
  return times * rows * extent(3) * static_cast<double>(width(work.dtype));
}

/// Flops of the causal half / (peak · length(Σs²/T) · head_size(D)), where Σs² is what a window
/// leaves of it.
///
/// Assumes: documents of a pack act like equal ones of the mean attended length, and attention
///          within a window like that of documents which score as many pairs
/// Source:  the rates that kernel authors print, which count the causal half; see each profile
Demand attention_demand(const Pricing& pricing) {
  if (pricing.work.kernel == Kernel::batched_matmul) return batched_matmul_demand(pricing);
  const bool backward = pricing.work.kernel == Kernel::attention_backward;
  const AttentionEfficiency& curves =
      backward ? pricing.profile.attention_backward : pricing.profile.attention;
  const double mean_length =
      scored_pairs_twice(pricing.work, pricing.bindings) / std::max(1.0, pricing.extent(0));
  const double efficiency =
      curves.length.curve.at(mean_length) * curves.head_size.curve.at(pricing.extent(3));
  const auto own = measured_efficiency(pricing);
  const Seconds matrix = matrix_time(pricing, hardware_flops(pricing.work, pricing.bindings),
                                     own.value_or(efficiency));
  const Seconds memory = memory_time(pricing, attention_bytes(pricing.work, pricing.bindings));
  Demand demand;
  demand.on(Resource::matrix) = matrix;
  demand.on(Resource::hbm) = own ? std::min(memory, matrix) : memory;
  return demand;
}

}  // namespace xt
