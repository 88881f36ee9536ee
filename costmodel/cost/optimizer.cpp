// The optimizer's passes over flat shards of parameters and gradients.

#include "costmodel/cost/classes.h"

namespace xt {

/// Per element: adamw reads the gradient and reads and writes parameter and two moments in fp32;
/// clip reads and writes the gradient; square_sum reads it.
///
///   adamw width + 6·4    clip 2·width    square_sum width
///
/// Units:   width is bytes of one gradient element
/// Source:  Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
///          algorithm 2
double optimizer_bytes(const Work& work, const Bindings& bindings) {
  constexpr double state_bytes = 6 * 4;
  const double gradient = static_cast<double>(width(work.dtype));
  const double per_element = work.kernel == Kernel::adamw  ? gradient + state_bytes
                             : work.kernel == Kernel::clip ? 2 * gradient
                                                           : gradient;
  return static_cast<double>(work.extent(0, bindings)) * per_element;
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
