// Collectives over a group of ranks.

#include <algorithm>

#include "costmodel/cost/classes.h"
#include "costmodel/hardware/collective.h"

namespace xt {
namespace {

// Pieces go around a ring of tensor parallel ranks by copy engines, as tensors go to the host.
//
// Source: Transformer Engine, pytorch/module/base.py, initialize_ub, ring_exchange with use_ce
bool is_copied(const Work& work) {
  return work.kernel == Kernel::send_receive && work.group == Group::tensor;
}

// Of the compute resources, by the kernel alone.
double share(const OverlapShares& shares, const Work& work) {
  if (is_copied(work)) return shares.swap_out.value;
  const Kernel kernel = work.kernel;
  if (kernel == Kernel::all_gather || kernel == Kernel::broadcast) return shares.all_gather.value;
  if (kernel == Kernel::reduce_scatter) return shares.reduce_scatter.value;
  if (kernel == Kernel::all_reduce) return shares.all_reduce.value;
  return shares.all_to_all.value;
}

// Of the compute resources: what the kernel occupies, and what its bytes take of device memory.
double held(const Pricing& pricing, double kernel_share, double bus_bytes, Seconds moving) {
  const auto& passes = pricing.profile.overlap.memory_passes;
  if (!passes || moving.value <= 0) return kernel_share;
  const double rate = bus_bytes / moving.value;
  return std::min(1.0, kernel_share + passes->value * rate / pricing.profile.hbm.value.value);
}

}  // namespace

/// Bytes of the whole message, as nccl-tests counts them: what an all-gather gathers, what a
/// reduce-scatter or all-reduce reduces, what a broadcast sends, and the larger of what a rank
/// sends and receives.
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
/// While it moves it holds the SMs of its kernel, and of device memory what its bytes pass.
/// Assumes: all ranks of the group start together; waiting for late ones is the simulator's;
///          compute loses both shares, whatever bounds it
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
    demand.holds = held(pricing, share(pricing.profile.overlap, pricing.work), bytes,
                        *std::ranges::max_element(demand.busy));
    return demand;
  }
  const CollectiveTime time = collective_time(pricing.profile, kernel, pricing.group, bytes);
  demand.latency = time.latency;
  demand.holds =
      held(pricing, share(pricing.profile.overlap, pricing.work), time.bus_bytes, time.moving);
  const bool over_network = scope(pricing.profile, pricing.group) == Scope::network;
  if (over_network) demand.on(Resource::scale_out) = time.moving;
  if (!over_network || ranks_in_a_node(pricing.profile, pricing.group) > 1)
    demand.on(Resource::scale_up) = time.moving;
  return demand;
}

}  // namespace xt
