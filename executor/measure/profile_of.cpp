#include "executor/measure/profile_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "costmodel/cost/demand.h"
#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr const char* source_key = "measure";

// Six digits: far below the spread of any measurement, and a file that people can read.
double rounded(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

Provenance measured_here(std::optional<std::string> note = {}) {
  return {source_key, Grade::measured, std::move(note)};
}

Provenance derived_here(std::string note) { return {source_key, Grade::derived, std::move(note)}; }

std::string repeats(const Samples& samples) {
  return fmt::format("median of {}, spread {:.2g}", samples.count(), samples.spread_ratio());
}

template <typename Quantity>
Sourced<Quantity> measured_as(const Samples& samples) {
  return {Quantity(rounded(std::max(0.0, samples.median()))),
          measured_here(fmt::format("median of {}", samples.count()))};
}

// The fixed part of a time: what the smallest call takes, but always less than any call takes.
double latency_of(const Samples& smallest, double shortest) {
  constexpr double largest_part = 0.9;
  return rounded(std::min(smallest.median(), largest_part * shortest));
}

// What a call takes beyond the fixed part; at least what clocks tell apart.
double beyond(Seconds latency, const Samples& times) {
  constexpr double resolution_s = 1e-9;
  return std::max(resolution_s, times.median() - latency.value);
}

double shortest_of(const std::vector<Samples>& times) {
  XT_CHECK(!times.empty());
  double shortest = times[0].median();
  for (const Samples& samples : times) shortest = std::min(shortest, samples.median());
  return shortest;
}

Sampling sampling_of(const std::vector<Samples>& times) {
  Sampling sampling{times.at(0).count(), 0};
  std::vector<double> spreads;
  for (const Samples& samples : times) {
    sampling.samples = std::min(*sampling.samples, samples.count());
    spreads.push_back(samples.spread_ratio());
  }
  sampling.spread_ratio = rounded(median_of(std::move(spreads)));
  return sampling;
}

// What the machine does a second of, for kernels of one class.
struct Rates {
  FlopsPerSecond peak;
  BytesPerSecond memory;
};

double seconds_at_full_rate(const Work& work, const Rates& rates) {
  if (kernel_class(work.kernel) == KernelClass::memory_bound)
    return static_cast<double>(memory_traffic(work, {}).value) / rates.memory.value;
  return (hardware_flops(work, {}) / rates.peak).value;
}

KernelEfficiency efficiency_of(const KernelTimes& found, const Rates& rates) {
  XT_CHECK(found.points.size() == found.cases.points.size(), name(found.cases.kernel));
  KernelEfficiency efficiency;
  efficiency.kernel = found.cases.kernel;
  if (const DType dtype = found.cases.smallest.dtype; dtype != DType::fp32)
    efficiency.dtype = dtype;
  efficiency.axes = found.cases.axes;
  efficiency.latency = Seconds(latency_of(found.smallest, shortest_of(found.points)));
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const Work& work = found.cases.points[i];
    const double moving = beyond(*efficiency.latency, found.points[i]);
    std::vector<double> point = coordinates(work, found.cases.axes);
    point.push_back(rounded(seconds_at_full_rate(work, rates) / moving));
    efficiency.surface.points.push_back(std::move(point));
  }
  std::ranges::sort(efficiency.surface.points);
  efficiency.sampling = sampling_of(found.points);
  efficiency.from = measured_here();
  return efficiency;
}

// Bytes on the busiest link over bytes of the message; a copy has one link.
//
// Source: NVIDIA nccl-tests, doc/PERFORMANCE.md
double bus_factor(const TrafficTimes& found) {
  if (kernel_class(found.kernel) == KernelClass::copy) return 1;
  const auto ranks = static_cast<double>(found.ranks);
  return (found.kernel == Kernel::all_reduce ? 2.0 : 1.0) * (ranks - 1) / ranks;
}

RateCurve rate_of(const TrafficTimes& found) {
  RateCurve curve;
  std::vector<Samples> times;
  for (const MessageTimes& message : found.points) times.push_back(message.times);
  curve.latency = Seconds(latency_of(found.smallest.times, shortest_of(times)));
  for (const MessageTimes& message : found.points) {
    const double moving = beyond(curve.latency, message.times);
    const double rate = static_cast<double>(message.bytes) * bus_factor(found) / moving;
    curve.points.emplace_back(Bytes(message.bytes), BytesPerSecond(rounded(rate)));
  }
  curve.sampling = sampling_of(times);
  curve.from = measured_here();
  return curve;
}

double best_rate(const RateCurve& curve) {
  double best = 0;
  for (const auto& [bytes, rate] : curve.points) best = std::max(best, rate.value);
  return best;
}

// The rate of the fastest product of any pass and size, if products in `dtype` were measured.
std::optional<Sourced<FlopsPerSecond>> peak_in(DType dtype,
                                               const std::vector<KernelTimes>& kernels) {
  double best = 0;
  const Samples* samples = nullptr;
  for (const KernelTimes& found : kernels) {
    if (kernel_class(found.cases.kernel) != KernelClass::matrix ||
        found.cases.smallest.dtype != dtype)
      continue;
    for (std::size_t i = 0; i < found.points.size(); ++i) {
      const double rate =
          hardware_flops(found.cases.points[i], {}).value / found.points[i].median();
      if (rate <= best) continue;
      best = rate;
      samples = &found.points[i];
    }
  }
  if (samples == nullptr) return std::nullopt;
  return Sourced<FlopsPerSecond>{
      FlopsPerSecond(rounded(best)),
      measured_here("best sustained matrix product; " + repeats(*samples))};
}

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

void describe_machine(Profile& profile, const MachineFacts& machine) {
  const std::string ranks =
      counted(machine.n_ranks, "rank") + " × " + counted(machine.threads_per_rank, "thread");
  profile.title = fmt::format("{}, {}", machine.processor, ranks);
  profile.sources.entries = {
      {source_key, fmt::format("xt-run measure on {}, {}, torch {}, {} at once, inputs seeded "
                               "random",
                               machine.processor, machine.date, machine.torch_version, ranks)}};
  profile.ranks_per_device = 1;
  profile.devices_per_node = machine.n_ranks;
  const Bytes part(machine.memory.value / machine.n_ranks);
  if (machine.device_memory) {
    profile.compute_issue = ComputeIssue::asynchronous;
    profile.memory = {*machine.device_memory, measured_here("as the driver reports it")};
    profile.host_memory = {part, measured_here("physical memory over ranks")};
    return;
  }
  profile.compute_issue = ComputeIssue::inlined;
  profile.memory = {part, measured_here("physical memory over ranks; host memory is the same")};
  profile.host_memory = {part, measured_here("physical memory over ranks; the device's own")};
}

void fill_memory(Profile& profile, const std::vector<MessageTimes>& copies) {
  XT_CHECK(!copies.empty());
  const auto rate = [](const MessageTimes& copy) {
    return static_cast<double>(copy.bytes) / copy.times.median();
  };
  const MessageTimes& largest = copies.back();
  profile.hbm = {
      BytesPerSecond(rounded(rate(largest))),
      measured_here("copies beyond the caches, read and write; " + repeats(largest.times))};
  profile.memory_bound.from = measured_here("copies, over those beyond the caches");
  for (const MessageTimes& copy : copies)
    profile.memory_bound.curve.points.emplace_back(static_cast<double>(copy.bytes),
                                                   rounded(rate(copy) / profile.hbm.value.value));
}

double median_fraction(const Profile& profile, KernelClass of) {
  std::vector<double> fractions;
  for (const KernelEfficiency& kernel : profile.kernels)
    if (kernel_class(kernel.kernel) == of)
      for (const auto& point : kernel.surface.points) fractions.push_back(point.back());
  return rounded(median_of(std::move(fractions)));
}

// The curves of classes speak for kernels that have none of their own; here every kernel has.
void fill_classes(Profile& profile) {
  const Provenance from = derived_here("median over sizes; every kernel has its own curve");
  const SourcedCurve flat = {{{{1, 1}}}, from};
  profile.matmul = {{median_fraction(profile, KernelClass::matrix), from}, flat, flat, flat};
  profile.grouped_matmul = {{median_fraction(profile, KernelClass::grouped_matrix), from}, flat};
  const SourcedCurve length = {{{{1, median_fraction(profile, KernelClass::attention)}}}, from};
  profile.attention = {length, flat};
  profile.attention_backward = {length, flat};
  std::vector<double> latencies;
  for (const KernelEfficiency& kernel : profile.kernels) latencies.push_back(kernel.latency->value);
  profile.latency = {Seconds(rounded(median_of(std::move(latencies)))),
                     derived_here("median over kernels; every kernel has its own")};
}

// A run of one rank has no collectives; a profile must still say something of them.
CollectiveEfficiency unmeasured(const Profile& profile, Kernel kernel) {
  CollectiveEfficiency stand_in{kernel, Scope::node, 2, {}};
  stand_in.rate.latency = profile.latency.value;
  stand_in.rate.points = {{Bytes(1), profile.hbm.value}};
  stand_in.rate.from = {source_key, Grade::estimate,
                        "measured with one rank: not measured, taken as a copy through memory"};
  return stand_in;
}

void fill_collectives(Profile& profile, const std::vector<TrafficTimes>& found) {
  for (const TrafficTimes& traffic : found)
    profile.collectives.push_back({traffic.kernel, Scope::node, traffic.ranks, rate_of(traffic)});
  if (found.empty())
    for (const Kernel kernel :
         {Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all})
      profile.collectives.push_back(unmeasured(profile, kernel));
  double best = 0;
  for (const CollectiveEfficiency& collective : profile.collectives)
    best = std::max(best, best_rate(collective.rate));
  profile.scale_up = {{BytesPerSecond(best), derived_here("best bus bandwidth of a collective")},
                      profile.devices_per_node};
}

// Above zero, because the simulator tells traffic from compute by it, and no more than everything.
Sourced<double> held_by(const std::vector<HeldShare>& held, Kernel kernel) {
  constexpr double least = 0.01, most = 1.0;
  const auto found = std::ranges::find(held, kernel, &HeldShare::kernel);
  if (found == held.end())
    return {most, {source_key, Grade::estimate, "measured with one rank: not measured"}};
  const auto [low, high] = std::ranges::minmax(found->shares.values);
  return {rounded(std::clamp(found->shares.median(), least, most)),
          measured_here(fmt::format("beside matrix products; median of {}, {:.3g} to {:.3g}",
                                    found->shares.count(), low, high))};
}

void fill_overlap(Profile& profile, const std::vector<HeldShare>& held) {
  profile.overlap = {held_by(held, Kernel::all_gather),
                     held_by(held, Kernel::reduce_scatter),
                     held_by(held, Kernel::all_reduce),
                     held_by(held, Kernel::all_to_all),
                     held_by(held, Kernel::copy_to_host),
                     held_by(held, Kernel::copy_to_device),
                     std::nullopt};  // the shares are of all that was lost
}

// What the allocator holds. Nothing stands beside a CPU's in the memory that it counts; what stands
// beside a GPU's is not measured here.
void fill_device_memory(Profile& profile, double reserved_over_allocated) {
  const double ratio = rounded(std::max(1.0, reserved_over_allocated));
  profile.reserved_over_allocated = {
      ratio, measured_here("blocks of many sizes at once; a step may reuse them less well")};
  profile.reserved_over_allocated_p95 = {
      ratio, derived_here("measured once: its spread is not known, so taken as the median")};
  if (profile.compute_issue == ComputeIssue::asynchronous) return;
  const Sourced<Bytes> nothing{
      Bytes(0), derived_here("a CPU has no context, and Gloo's buffers are not the allocator's")};
  profile.device_context = profile.communicator_memory = profile.all_to_all_memory = nothing;
}

}  // namespace

Profile profile_of(const Measurements& found, std::string name) {
  Profile profile;
  profile.name = std::move(name);
  describe_machine(profile, found.machine);
  fill_device_memory(profile, found.reserved_over_allocated);
  for (const DType dtype : {DType::fp32, DType::bf16})
    profile.peaks.of[static_cast<std::size_t>(dtype)] = peak_in(dtype, found.kernels);
  XT_CHECK(profile.peak(DType::fp32));
  fill_memory(profile, found.memory_copies);
  for (const KernelTimes& kernel : found.kernels) {
    const Rates rates{profile.peak(kernel.cases.smallest.dtype)->value, profile.hbm.value};
    profile.kernels.push_back(efficiency_of(kernel, rates));
  }
  fill_classes(profile);
  fill_collectives(profile, found.collectives);
  profile.copies = {rate_of(found.to_host), rate_of(found.to_device)};
  fill_overlap(profile, found.held);
  profile.launch = {
      measured_as<Seconds>(found.issue.kernel), measured_as<Seconds>(found.issue.collective),
      measured_as<Seconds>(found.issue.copy), measured_as<Seconds>(found.issue.synchronize)};
  return profile;
}

}  // namespace xt
