#include "costmodel/cost/demand.h"

#include <algorithm>
#include <cmath>

#include "costmodel/cost/classes.h"
#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

Demand class_demand(const Pricing& pricing) {
  const Kernel kernel = pricing.work.kernel;
  switch (kernel_class(kernel)) {
    case KernelClass::matrix:
      return matmul_demand(pricing);
    case KernelClass::grouped_matrix:
      return grouped_matmul_demand(pricing);
    case KernelClass::attention:
      return attention_demand(pricing);
    case KernelClass::memory_bound:
      return is_optimizer(kernel) ? optimizer_demand(pricing) : memory_bound_demand(pricing);
    case KernelClass::collective:
      return collective_demand(pricing);
    case KernelClass::copy:
      return copy_demand(pricing);
    case KernelClass::host:
      return host_demand(pricing);
  }
  return {};
}

bool is_compute_class(KernelClass kernel_class) { return kernel_class < KernelClass::collective; }

Seconds launch_cost(const LaunchCosts& launch, KernelClass kernel_class) {
  if (kernel_class == KernelClass::collective) return launch.collective.value;
  if (kernel_class == KernelClass::copy) return launch.copy.value;
  if (kernel_class == KernelClass::host) return launch.synchronize.value;
  return launch.kernel.value;
}

Seconds kernel_latency(const Pricing& pricing) {
  const KernelEfficiency* own = measured(pricing.profile, pricing.work.kernel, pricing.work.dtype);
  return own && own->latency ? *own->latency : pricing.profile.latency.value;
}

// Position in the rows of products of experts.
constexpr std::size_t n_experts = 3;

// The value of an axis of a measured kernel: an extent by its name in ir/kernel.h, or one of the
// four derived sizes.
double axis_value(const Pricing& pricing, std::string_view axis) {
  if (axis == "bytes")
    return static_cast<double>(memory_traffic(pricing.work, pricing.bindings).value);
  if (axis == "flops") return hardware_flops(pricing.work, pricing.bindings).value;
  if (axis == "rows_per_expert") return pricing.extent(0) / std::max(1.0, pricing.extent(3));
  if (axis == "mean_length")
    return scored_pairs_twice(pricing.work, pricing.bindings) / std::max(1.0, pricing.extent(0));
  const auto position = extent_position(pricing.work.kernel, axis);
  XT_CHECK(position, axis, name(pricing.work.kernel));
  return pricing.extent(*position);
}

}  // namespace

Demand demand(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile, double clock) {
  const Pricing pricing = {work, bindings, group, profile, clock};
  Demand demand = class_demand(pricing);
  const KernelClass of = kernel_class(work.kernel);
  const double n_calls = calls(work, bindings);
  if (is_compute_class(of)) demand.latency = kernel_latency(pricing) * n_calls;
  if (of == KernelClass::host) demand.latency = profile.launch.wait(work.kernel).value;
  const double factor = scale(profile, work.kernel);
  demand.latency = demand.latency * factor;
  for (Seconds& seconds : demand.busy) seconds = seconds * factor;
  const double n_launches = is_apart(work) ? pricing.extent(n_experts) : n_calls;
  if (of != KernelClass::host) demand.issue = launch_cost(profile.launch, of) * n_launches;
  return demand;
}

Demand demand(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile) {
  return demand(work, bindings, group, profile, slowest_clock(profile, 1));
}

Seconds alone(const Demand& demand) {
  return demand.latency + *std::ranges::max_element(demand.busy);
}

Resource bound(const Demand& demand) {
  const auto largest = std::ranges::max_element(demand.busy);
  return static_cast<Resource>(largest - demand.busy.begin());
}

Flops model_flops(const Work& work, const Bindings& bindings) {
  const Flops executed = hardware_flops(work, bindings);
  constexpr double causal_share = 0.5;  // of the square of scores that a batch computes
  if (work.kernel == Kernel::batched_matmul) return executed * causal_share;
  constexpr double counted_share = 4.0 / 5.0;  // without computing the scores again
  return work.kernel == Kernel::attention_backward ? executed * counted_share : executed;
}

Flops hardware_flops(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const KernelClass of = kernel_class(work.kernel);
  if (work.kernel == Kernel::orthogonalise) return Flops(newton_schulz_flops(work, bindings));
  if (of == KernelClass::matrix || of == KernelClass::grouped_matrix)
    return Flops(2 * extent(0) * extent(1) * extent(2));
  if (of != KernelClass::attention) return Flops(0);
  if (work.kernel == Kernel::batched_matmul)
    return Flops(2 * extent(0) * extent(1) * extent(2) * extent(3));
  const double products = work.kernel == Kernel::attention_backward ? 5 : 2;
  return Flops(products * extent(1) * extent(3) * scored_pairs_twice(work, bindings));
}

Bytes memory_traffic(const Work& work, const Bindings& bindings) {
  static constexpr double most = 0x1p62;  // more than any machine has, and still a count of bytes
  const auto whole = [](double bytes) {
    return Bytes(static_cast<std::int64_t>(std::nearbyint(std::min(bytes, most))));
  };
  switch (kernel_class(work.kernel)) {
    case KernelClass::matrix:
      return whole(matmul_bytes(work, bindings));
    case KernelClass::grouped_matrix:
      return whole(grouped_matmul_bytes(work, bindings));
    case KernelClass::attention:
      return whole(attention_bytes(work, bindings));
    case KernelClass::memory_bound:
      return whole(is_optimizer(work.kernel) ? optimizer_bytes(work, bindings)
                                             : memory_bound_bytes(work, bindings));
    case KernelClass::collective:
      return whole(collective_bytes(work, bindings));
    case KernelClass::copy:
      return whole(copy_bytes(work, bindings));
    case KernelClass::host:
      return whole(host_bytes(work, bindings));
  }
  return Bytes(0);
}

std::optional<double> measured_efficiency(const Pricing& pricing) {
  const KernelEfficiency* own = measured(pricing.profile, pricing.work.kernel, pricing.work.dtype);
  if (!own) return std::nullopt;
  std::array<double, max_extents> at{};
  XT_CHECK(own->axes.size() <= at.size(), own->axes.size());
  for (std::size_t i = 0; i < own->axes.size(); ++i) at[i] = axis_value(pricing, own->axes[i]);
  return own->surface.at(std::span(at.data(), own->axes.size()));
}

double calls(const Work& work, const Bindings& bindings) {
  constexpr std::size_t position = 2;
  if (work.kernel != Kernel::cast) return 1;
  return static_cast<double>(std::max<std::int64_t>(1, work.extent(position, bindings)));
}

Seconds memory_time(const Pricing& pricing, double bytes) {
  const bool is_memory_bound = kernel_class(pricing.work.kernel) == KernelClass::memory_bound;
  const auto own = is_memory_bound ? measured_efficiency(pricing) : std::nullopt;
  const double each = bytes / calls(pricing.work, pricing.bindings);
  const double fraction = own.value_or(pricing.profile.memory_bound.curve.at(each));
  return Seconds(bytes / (pricing.profile.hbm.value.value * fraction));
}

Seconds matrix_time(const Pricing& pricing, Flops flops, double efficiency) {
  const auto& peak = pricing.profile.peak(pricing.work.dtype);
  XT_CHECK(peak, pricing.profile.name, name(pricing.work.dtype));
  return flops / (peak->value * efficiency);
}

}  // namespace xt
