// Source: the demand of each class in this folder: the numbers listed here are those it multiplies

#include "costmodel/cost/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "costmodel/cost/classes.h"
#include "costmodel/hardware/collective.h"

namespace xt {
namespace {

using Numbers = std::vector<Basis>;

void add_peak(Numbers& numbers, const Profile& profile, DType dtype) {
  if (const auto& peak = profile.peak(dtype))
    numbers.push_back({fmt::format("peaks.{}", name(dtype)), peak->from});
}

// What any product is multiplied by, measured kernel or curve.
Numbers rates_of_products(const Profile& profile, DType dtype) {
  Numbers numbers;
  add_peak(numbers, profile, dtype);
  if (profile.sustained_clock)
    numbers.push_back({"sustained_clock", profile.sustained_clock->from});
  if (profile.clock_spread) numbers.push_back({"clock_spread", profile.clock_spread->from});
  return numbers;
}

Numbers product_numbers(const Profile& profile, const Work& work) {
  Numbers numbers = rates_of_products(profile, work.dtype);
  const MatmulEfficiency& of = profile.matmul;
  if (kernel_class(work.kernel) == KernelClass::grouped_matrix && !is_apart(work)) {
    numbers.push_back({"grouped_matmul.base", profile.grouped_matmul.base.from});
    numbers.push_back(
        {"grouped_matmul.rows_per_expert", profile.grouped_matmul.rows_per_expert.from});
  } else {
    numbers.push_back({"matmul.base", of.base.from});
    numbers.push_back({"matmul.rows", of.rows.from});
  }
  numbers.push_back({"matmul.columns", of.columns.from});
  numbers.push_back({"matmul.inner", of.inner.from});
  return numbers;
}

Numbers attention_numbers(const Profile& profile, const Work& work) {
  Numbers numbers;
  add_peak(numbers, profile, work.dtype);
  const bool is_backward = work.kernel == Kernel::attention_backward;
  const AttentionEfficiency& of = is_backward ? profile.attention_backward : profile.attention;
  const char* name = is_backward ? "attention_backward" : "attention";
  numbers.push_back({fmt::format("{}.length", name), of.length.from});
  numbers.push_back({fmt::format("{}.head_size", name), of.head_size.from});
  return numbers;
}

Basis of_points(const CollectiveEfficiency& points) {
  return {fmt::format("collectives.{} over {} ranks, {}", name(points.kernel), points.ranks,
                      scope_names[static_cast<std::size_t>(points.scope)]),
          points.rate.from};
}

// Beyond the group sizes that the profile knows, its nearest is an estimate, whatever it is itself.
Basis beyond(const CollectiveEfficiency& points, std::int64_t ranks) {
  Basis basis = of_points(points);
  basis.path += fmt::format(", taken for {}", ranks);
  basis.from.grade = Grade::estimate;
  return basis;
}

// The nearer of two group sizes comes first; the links between nodes where they bind.
Numbers collective_numbers(const Profile& profile, const Work& work, const Bindings& bindings,
                           const GroupShape& group) {
  const auto [fewer, more] = collective_points(profile, work.kernel, group);
  const auto bytes = static_cast<double>(memory_traffic(work, bindings).value);
  if (is_bound_by_links(profile, work.kernel, group, bytes))
    return {{"scale_out", profile.scale_out->from}};
  if (fewer == more && fewer->ranks != group.size) return {beyond(*fewer, group.size)};
  const bool is_nearer_to_more = std::int64_t{group.size} * group.size > fewer->ranks * more->ranks;
  if (is_nearer_to_more) return {of_points(*more), of_points(*fewer)};
  return {of_points(*fewer), of_points(*more)};
}

// The links that bind decide where a node gets a token once.
Numbers exchange_numbers(const Profile& profile, const Work& work, const Bindings& bindings,
                         const GroupShape& group, Resource bound) {
  if (bound == Resource::scale_up && sends_once_per_node(work, group, profile))
    return collective_numbers(profile, work, bindings, in_a_node(group, profile));
  return collective_numbers(profile, work, bindings, group);
}

Numbers memory_numbers(const Profile& profile) {
  return {{"hbm", profile.hbm.from}, {"memory_bound", profile.memory_bound.from}};
}

Numbers copy_numbers(const Profile& profile, Kernel kernel) {
  const bool is_up = kernel == Kernel::copy_to_host;
  const RateCurve& of = is_up ? profile.copies.to_host : profile.copies.to_device;
  return {{is_up ? "copies.to_host" : "copies.to_device", of.from}};
}

Numbers own_numbers(const Profile& profile, const KernelEfficiency& own, const Work& work) {
  Numbers numbers = {{fmt::format("kernels.{}", name(work.kernel)), own.from}};
  const KernelClass of = kernel_class(work.kernel);
  if (of == KernelClass::memory_bound) {
    numbers.push_back({"hbm", profile.hbm.from});
  } else if (of == KernelClass::attention) {
    add_peak(numbers, profile, work.dtype);
  } else {
    const Numbers rates = rates_of_products(profile, work.dtype);
    numbers.insert(numbers.end(), rates.begin(), rates.end());
  }
  return numbers;
}

Numbers numbers_of(const Work& work, const Bindings& bindings, const GroupShape& group,
                   const Profile& profile, Resource bound) {
  const KernelClass of = kernel_class(work.kernel);
  if (work.kernel == Kernel::adamw_on_host)
    return {{"host_memory_bandwidth", profile.host_memory_bandwidth->from}};
  if (of == KernelClass::host) {
    const Sourced<Seconds>& wait = profile.launch.wait(work.kernel);
    const bool is_of_counts = &wait != &profile.launch.synchronize;
    return {{is_of_counts ? "launch.counts" : "launch.synchronize", wait.from}};
  }
  if (of == KernelClass::copy) return copy_numbers(profile, work.kernel);
  if (of == KernelClass::collective)
    return group.size == 1 ? memory_numbers(profile)
                           : exchange_numbers(profile, work, bindings, group, bound);
  if (const KernelEfficiency* own = measured(profile, work.kernel, work.dtype))
    return own_numbers(profile, *own, work);
  if (bound == Resource::hbm || of == KernelClass::memory_bound) return memory_numbers(profile);
  if (of == KernelClass::attention && work.kernel != Kernel::batched_matmul)
    return attention_numbers(profile, work);
  return product_numbers(profile, work);
}

}  // namespace

Basis weakest(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile) {
  const Demand asked = demand(work, bindings, group, profile);
  const bool only_waits =
      kernel_class(work.kernel) < KernelClass::collective && 2 * asked.latency > alone(asked);
  if (only_waits) return {"latency", profile.latency.from};
  const Numbers numbers = numbers_of(work, bindings, group, profile, bound(asked));
  return *std::ranges::max_element(numbers, {}, [](const Basis& of) { return of.from.grade; });
}

}  // namespace xt
