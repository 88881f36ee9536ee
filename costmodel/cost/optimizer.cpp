// The optimizer's passes over flat shards of parameters and gradients.

#include "costmodel/cost/classes.h"

namespace xt {

/// Per element: adamw reads the gradient and reads and writes parameter and two moments; clip
/// reads and writes the gradient; square_sum reads it.
///
///   adamw 7·4    clip 2·4    square_sum 4
///
/// Assumes: shards of parameters, gradients and moments are fp32, whatever the compute dtype
/// Source:  Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
///          algorithm 2
double optimizer_bytes(const Work& work, const Bindings& bindings) {
  constexpr double fp32_bytes = 4;
  const double words = work.kernel == Kernel::adamw ? 7 : work.kernel == Kernel::clip ? 2 : 1;
  return static_cast<double>(work.extent(0, bindings)) * words * fp32_bytes;
}

/// Bytes over the fraction of the memory bandwidth for that many.
///
/// Assumes: one fused pass per shard
/// Source:  Williams, Waterman, Patterson 2009, "Roofline", CACM 52(4)
Demand optimizer_demand(const Pricing& pricing) {
  Demand demand;
  demand.on(Resource::hbm) = memory_time(pricing, optimizer_bytes(pricing.work, pricing.bindings));
  return demand;
}

}  // namespace xt
