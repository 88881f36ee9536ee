// Copies between device and host.

#include "costmodel/cost/classes.h"

namespace xt {

/// elements · width.
///
/// Source:  derived from the operands
double copy_bytes(const Work& work, const Bindings& bindings) {
  return static_cast<double>(work.extent(0, bindings) * width(work.dtype));
}

/// latency + bytes / rate(bytes) on the link of its direction, beside host memory where known.
///
/// Assumes: host memory is pinned; both directions are independent of each other
/// Source:  the copy curves of each profile
Demand copy_demand(const Pricing& pricing) {
  const bool up = pricing.work.kernel == Kernel::copy_to_host;
  const RateCurve& copies = up ? pricing.profile.copies.to_host : pricing.profile.copies.to_device;
  const OverlapShares& shares = pricing.profile.overlap;
  const double bytes = copy_bytes(pricing.work, pricing.bindings);
  Demand demand;
  demand.latency = copies.latency;
  demand.holds = up ? shares.swap_out.value : shares.swap_in.value;
  demand.on(up ? Resource::host_link_up : Resource::host_link_down) =
      Seconds(bytes / copies.at(bytes).value);
  if (pricing.profile.host_memory_bandwidth)
    demand.on(Resource::host_memory) =
        Seconds(bytes / pricing.profile.host_memory_bandwidth->value.value);
  return demand;
}

}  // namespace xt
