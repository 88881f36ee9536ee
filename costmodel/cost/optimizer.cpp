// The optimizer's passes over flat shards of parameters and gradients.

#include "costmodel/cost/classes.h"

namespace xt {
namespace {

double words(Kernel kernel) {
  switch (kernel) {
    case Kernel::adamw:
      return 7;
    case Kernel::muon_momentum:
      return 4;
    case Kernel::muon_update:
      return 3;
    case Kernel::clip:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

/// Per element: adamw reads the gradient and reads and writes parameter and two moments; clip
/// reads and writes the gradient; square_sum reads it; muon_momentum reads and writes momentum and
/// gradient; muon_update reads the update and reads and writes the parameter.
///
///   adamw 7·4    clip 2·4    square_sum 4    muon_momentum 4·4    muon_update 3·4
///
/// Assumes: shards of parameters, gradients and moments are fp32, whatever the compute dtype
/// Source:  Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
///          algorithm 2
double optimizer_bytes(const Work& work, const Bindings& bindings) {
  constexpr double fp32_bytes = 4;
  return static_cast<double>(work.extent(0, bindings)) * words(work.kernel) * fp32_bytes;
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
