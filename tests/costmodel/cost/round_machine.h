#pragma once

// A machine of round numbers, and works priced on it.

#include <algorithm>
#include <initializer_list>

#include "costmodel/cost/demand.h"

namespace xt::test {

/// `value` as a profile has it.
template <typename T>
Sourced<T> sourced(T value) {
  return {value, {"test", Grade::measured}};
}

/// The same everywhere.
inline SourcedCurve constant(double value) { return {{{{1, value}}}, {"test", Grade::measured}}; }

/// Any message at one rate.
inline RateCurve rate(double latency_s, double bytes_per_s) {
  RateCurve curve;
  curve.latency = Seconds(latency_s);
  curve.points = {{Bytes(1), BytesPerSecond(bytes_per_s)}};
  return curve;
}

/// 100 TFLOP/s at one half, 1 TB/s at 0.8, links of 100 and 10 GB/s.
inline Profile round_machine() {
  Profile profile;
  profile.devices_per_node = 8;
  profile.scale_up = {sourced(BytesPerSecond(100e9)), 8};
  profile.scale_out = sourced(BytesPerSecond(10e9));
  profile.host_memory_bandwidth = sourced(BytesPerSecond(200e9));
  profile.hbm = sourced(BytesPerSecond(1e12));
  for (const DType dtype : {DType::fp32, DType::bf16})
    profile.peaks.of[static_cast<std::size_t>(dtype)] = sourced(FlopsPerSecond(100e12));
  profile.matmul = {sourced(0.5), constant(1), constant(1), constant(1)};
  profile.grouped_matmul = {sourced(0.5), constant(1)};
  profile.attention = {constant(0.5), constant(1)};
  profile.attention_backward = {constant(0.25), constant(1)};
  profile.memory_bound = constant(0.8);
  profile.launch = {sourced(Seconds(1e-6)), sourced(Seconds(2e-6)), sourced(Seconds(3e-6)),
                    sourced(Seconds(4e-6))};
  profile.latency = sourced(Seconds(5e-6));
  for (const Kernel kernel :
       {Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all})
    profile.collectives.push_back({kernel, Scope::node, 8, rate(10e-6, 80e9)});
  profile.copies = {rate(1e-6, 20e9), rate(1e-6, 25e9)};
  profile.overlap.all_gather = sourced(0.2);
  profile.overlap.swap_out = sourced(0.05);
  return profile;
}

/// `kernel` on `extents`, in the order of its row.
inline Work work(Kernel kernel, DType dtype, std::initializer_list<std::int64_t> extents) {
  Work made;
  made.kernel = kernel;
  made.dtype = dtype;
  std::ranges::copy(extents, made.extents.begin());
  return made;
}

/// What `of` asks of a machine.
inline Demand priced(const Work& of, const Profile& profile = round_machine(),
                     GroupShape group = {}) {
  return demand(of, {}, group, profile);
}

}  // namespace xt::test
