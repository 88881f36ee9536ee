// Collectives over a group of ranks.

#include <algorithm>

#include "costmodel/cost/classes.h"
#include "costmodel/hardware/collective.h"

namespace xt {
namespace {

double share(const OverlapShares& shares, Kernel kernel) {
  if (kernel == Kernel::all_gather) return shares.all_gather.value;
  if (kernel == Kernel::reduce_scatter) return shares.reduce_scatter.value;
  if (kernel == Kernel::all_reduce) return shares.all_reduce.value;
  return shares.all_to_all.value;
}

}  // namespace

/// Bytes of the whole message, as nccl-tests counts them: what an all-gather gathers, what a
/// reduce-scatter or all-reduce reduces, and the larger of what a rank sends and receives.
///
/// Source:  NVIDIA nccl-tests, doc/PERFORMANCE.md
double collective_bytes(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double bytes = static_cast<double>(width(work.dtype));
  if (work.kernel == Kernel::all_to_all) return std::max(extent(0), extent(1)) * extent(2) * bytes;
  return extent(0) * bytes;
}

/// latency + bus bytes / bus bandwidth, on the network the group spans; a group of one copies.
///
/// A ring over the scale-out network holds the links inside the node as long as those outside.
/// Assumes: all ranks of the group start together; waiting for late ones is the simulator's
/// Source:  NVIDIA nccl-tests, doc/PERFORMANCE.md, for bus bandwidth; points in each profile
Demand collective_demand(const Pricing& pricing) {
  Demand demand;
  const double bytes = collective_bytes(pricing.work, pricing.bindings);
  if (pricing.group.size == 1) {
    demand.latency = pricing.profile.latency.value;
    demand.on(Resource::hbm) = memory_time(pricing, 2 * bytes);
    return demand;
  }
  const Kernel kernel = pricing.work.kernel;
  if (sends_once_per_node(pricing.work, pricing.group, pricing.profile)) {
    demand = token_exchange_demand(pricing);
    demand.holds = share(pricing.profile.overlap, kernel);
    return demand;
  }
  const CollectiveTime time = collective_time(pricing.profile, kernel, pricing.group, bytes);
  demand.latency = time.latency;
  demand.holds = share(pricing.profile.overlap, kernel);
  const bool over_network = scope(pricing.profile, pricing.group) == Scope::network;
  if (over_network) demand.on(Resource::scale_out) = time.moving;
  if (!over_network || ranks_in_a_node(pricing.profile, pricing.group) > 1)
    demand.on(Resource::scale_up) = time.moving;
  return demand;
}

}  // namespace xt
