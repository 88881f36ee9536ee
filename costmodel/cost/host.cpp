// What the host computes itself.

#include "costmodel/cost/classes.h"
#include "costmodel/diagnostics/check.h"

namespace xt {

/// Per element of an update: the gradient is widened, clipped in place and read; parameter and two
/// moments are read and written; the parameter is narrowed.
///
///   (2 + 4) + 2·4 + 4 + 6·4 + (4 + 2)
///
/// Assumes: gradients arrive in 16 bits; nothing stays in caches between passes
/// Source:  DeepSpeed, runtime/zero/stage3.py, with offload_optimizer; csrc/adam/cpu_adam.cpp, one
///          pass for the update
double host_bytes(const Work& work, const Bindings& bindings) {
  constexpr double bytes_each = 48;
  if (work.kernel != Kernel::adamw_on_host) return 0;
  return static_cast<double>(work.extent(0, bindings)) * bytes_each;
}

/// Bytes over a rank's part of the bandwidth of host memory; nothing for what only waits.
Demand host_demand(const Pricing& pricing) {
  Demand demand;
  const double bytes = host_bytes(pricing.work, pricing.bindings);
  if (bytes == 0) return demand;
  const auto& bandwidth = pricing.profile.host_memory_bandwidth;
  XT_CHECK(bandwidth, pricing.profile.name);
  demand.on(Resource::host_memory) = Seconds(bytes / bandwidth->value.value);
  return demand;
}

}  // namespace xt
