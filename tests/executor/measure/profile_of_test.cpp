// Invented times in, the same times out: what a profile predicts of a work that was measured.

#include "executor/measure/profile_of.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/cost/demand.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/yaml.h"
#include "costmodel/models/decoder.h"
#include "costmodel/sim/simulate.h"
#include "executor/kernels/priced_only.h"
#include "planner/lower/lower.h"

namespace xt {
namespace {

// Fractions and rates are written with six digits: half of the last is 5e-6 at most.
constexpr double tolerance = 6e-6;

Samples about(double seconds) { return {{0.9 * seconds, seconds, 1.2 * seconds}}; }

// A time that no formula of the cost model gives: its place in the list perturbs it.
double invented(double scale, std::size_t i) {
  return scale * (1 + 0.4 * std::sin(3.0 * static_cast<double>(i + 1)));
}

KernelTimes invented_times(const KernelCases& cases) {
  KernelTimes times{cases, about(2e-6), {}};
  for (std::size_t i = 0; i < cases.points.size(); ++i) {
    const double work = hardware_flops(cases.points[i], {}).value / 4e10 +
                        static_cast<double>(memory_traffic(cases.points[i], {}).value) / 7e9;
    times.points.push_back(about(5e-6 + invented(work, i)));
  }
  return times;
}

TrafficTimes invented_traffic(Kernel kernel, std::int64_t ranks) {
  TrafficTimes times{kernel, ranks, {64, about(8e-5)}, {}};
  for (std::int64_t bytes = 4096; bytes <= std::int64_t{1} << 24; bytes *= 8)
    times.points.push_back(
        {bytes, about(1e-4 + invented(static_cast<double>(bytes) / 2e9, times.points.size()))});
  return times;
}

const std::vector<DType> both = {DType::fp32, DType::bf16};

Measurements invented_measurements(Coverage coverage, std::int64_t ranks,
                                   const std::vector<DType>& dtypes = both) {
  Measurements found;
  found.machine = {"a processor", "2026-01-01", "2.11.0", Bytes(std::int64_t{1} << 34), ranks, 1};
  for (const DType dtype : dtypes)
    for (const KernelCases& cases : kernel_cases(coverage, dtype))
      found.kernels.push_back(invented_times(cases));
  found.memory_copies = {{1 << 16, about(4e-6)}, {1 << 22, about(4e-4)}, {1 << 27, about(2e-2)}};
  found.to_host = invented_traffic(Kernel::copy_to_host, 1);
  found.to_device = invented_traffic(Kernel::copy_to_device, 1);
  found.held = {{Kernel::copy_to_host, {{0.5, 0.6, 0.7}}}, {Kernel::copy_to_device, {{1.4}}}};
  found.issue = {about(1e-6), about(2e-6), about(3e-6), about(4e-6)};
  found.reserved_over_allocated = 1.06;
  if (ranks == 1) return found;
  for (const Kernel kernel :
       {Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all}) {
    for (std::int64_t size = 2; size <= ranks; size *= 2)
      found.collectives.push_back(invented_traffic(kernel, size));
    found.held.push_back({kernel, {{-0.1, -0.2, 0.1}}});
  }
  return found;
}

Profile written_and_read(const Profile& profile) {
  return read<Profile>(parse_yaml({"machine.yaml", to_yaml(write(profile))}));
}

void expect_time(const Work& work, const GroupShape& group, const Profile& profile,
                 double measured) {
  const double predicted = alone(demand(work, {}, group, profile)).value;
  EXPECT_NEAR(predicted / measured, 1, tolerance) << name(work.kernel);
}

class EveryCoverage : public testing::TestWithParam<Coverage> {};

TEST_P(EveryCoverage, PredictsEveryMeasuredKernelExactly) {
  const Measurements found = invented_measurements(GetParam(), 2);
  const Profile profile = written_and_read(profile_of(found, "machine"));
  for (const KernelTimes& kernel : found.kernels)
    for (std::size_t i = 0; i < kernel.points.size(); ++i)
      expect_time(kernel.cases.points[i], {}, profile, kernel.points[i].median());
}

TEST_P(EveryCoverage, CoversEveryKernelThatIsExecuted) {
  std::vector<Kernel> covered;
  for (const KernelCases& cases : kernel_cases(GetParam())) {
    covered.push_back(cases.kernel);
    EXPECT_GE(cases.points.size(), 3U) << name(cases.kernel);
    for (const Work& work : cases.points)
      EXPECT_LE(memory_traffic(work, {}).value, largest_call_bytes(GetParam()))
          << name(cases.kernel);
  }
  for (const KernelRow& row : kernel_rows)
    EXPECT_EQ(std::ranges::count(covered, row.kernel),
              row.kernel_class < KernelClass::collective && !is_priced_only(row.kernel) ? 1 : 0)
        << row.name;
}

TEST_P(EveryCoverage, FileStaysBelowAHundredKilobytesForEachDtype) {
  const auto size = [](const Measurements& found) {
    return to_yaml(write(profile_of(found, "machine"))).size();
  };
  EXPECT_LT(size(invented_measurements(GetParam(), 2, {DType::fp32})), 100'000U);
  EXPECT_LT(size(invented_measurements(GetParam(), 2)), 200'000U);
}

INSTANTIATE_TEST_SUITE_P(Coverages, EveryCoverage,
                         testing::Values(Coverage::quick, Coverage::full, Coverage::large));

// What a GPU has of its own, and what nobody measured of it.
TEST(MeasuredProfile, OfADeviceHasItsMemoryAndGoesOnBehindItsHost) {
  Measurements found = invented_measurements(Coverage::large, 1);
  found.machine.device_memory = Bytes(std::int64_t{80} << 30);
  const Profile profile = written_and_read(profile_of(found, "device"));
  EXPECT_EQ(profile.memory.value, *found.machine.device_memory);
  EXPECT_EQ(profile.host_memory.value, found.machine.memory);
  EXPECT_EQ(profile.compute_issue, ComputeIssue::asynchronous);
  EXPECT_FALSE(profile.device_context);
}

TEST(MeasuredProfile, ReadsBackEqual) {
  const Profile profile = profile_of(invented_measurements(Coverage::quick, 4), "machine");
  EXPECT_EQ(written_and_read(profile), profile);
}

// Extents whose message has that many bytes, in the units of the kernel.
Work message(Kernel kernel, std::int64_t bytes) {
  const std::int64_t n = bytes / 4;
  if (kernel == Kernel::all_to_all)
    return {kernel, DType::fp32, Group::world, {n / 16, n / 16, 16}};
  return {kernel, DType::fp32, Group::world, {n}};
}

TEST(MeasuredProfile, PredictsEveryMeasuredMessageExactly) {
  const Measurements found = invented_measurements(Coverage::quick, 4);
  const Profile profile = written_and_read(profile_of(found, "machine"));
  std::vector<TrafficTimes> all = found.collectives;
  all.push_back(found.to_host);
  all.push_back(found.to_device);
  for (const TrafficTimes& traffic : all)
    for (const MessageTimes& sent : traffic.points)
      expect_time(message(traffic.kernel, sent.bytes),
                  {static_cast<std::int32_t>(traffic.ranks), 1}, profile, sent.times.median());
}

TEST(MeasuredProfile, KeepsSharesWithinWhatTheSimulatorAllows) {
  const Profile profile = profile_of(invented_measurements(Coverage::quick, 2), "machine");
  EXPECT_DOUBLE_EQ(profile.overlap.swap_out.value, 0.6);
  EXPECT_DOUBLE_EQ(profile.overlap.swap_in.value, 1);        // measured 1.4
  EXPECT_DOUBLE_EQ(profile.overlap.all_gather.value, 0.01);  // measured −0.1
}

TEST(MeasuredProfile, OfASingleRankSaysThatCollectivesWereNotMeasured) {
  const Profile profile =
      written_and_read(profile_of(invented_measurements(Coverage::quick, 1), "machine"));
  ASSERT_EQ(profile.collectives.size(), 4U);
  for (const CollectiveEfficiency& collective : profile.collectives)
    EXPECT_EQ(collective.rate.from.grade, Grade::estimate);
  EXPECT_EQ(profile.overlap.all_gather.from.grade, Grade::estimate);
  EXPECT_EQ(profile.overlap.swap_out.from.grade, Grade::measured);
}

TEST(MeasuredProfile, OfACpuHasNothingBesideTheAllocatorAndNoSpread) {
  const Profile profile = profile_of(invented_measurements(Coverage::quick, 2), "machine");
  EXPECT_DOUBLE_EQ(profile.reserved_over_allocated.value, 1.06);
  EXPECT_DOUBLE_EQ(profile.reserved_over_allocated_p95->value, 1.06);
  EXPECT_EQ(profile.device_context->value, Bytes(0));
  EXPECT_EQ(profile.communicator_memory->value, Bytes(0));
  EXPECT_EQ(profile.all_to_all_memory->value, Bytes(0));
}

TEST(MeasuredProfile, TakesAFixedTimeThatNoCallFallsBelow) {
  Measurements found = invented_measurements(Coverage::quick, 2);
  found.kernels[0].smallest = about(1.0);  // somebody else had the machine
  const Profile profile = profile_of(found, "machine");
  for (const auto& point : profile.kernels[0].surface.points) EXPECT_GT(point.back(), 0);
}

TEST(MeasuredProfile, SaysHowOftenAndHowSteadily) {
  const Profile profile = profile_of(invented_measurements(Coverage::quick, 2), "machine");
  for (const KernelEfficiency& kernel : profile.kernels) {
    EXPECT_EQ(kernel.sampling.samples, 3);
    EXPECT_NEAR(kernel.sampling.spread_ratio.value(), 0.3, 1e-6);  // (1.2 − 0.9) / 1
  }
}

Architecture tiny_moe() {
  Architecture model;
  model.model_type = "qwen3_moe";
  model.vocab_size = 256;
  model.hidden_size = 64;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.head_dim = 16;
  model.intermediate_size = 128;
  model.has_qk_norm = true;
  model.num_experts = 4;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 32;
  return model;
}

TEST(MeasuredProfile, PricesEveryOpOfASchedule) {
  const Strategy strategy{.ranks = 2,
                          .expert_parallel = 2,
                          .pack_length = 128,
                          .sample_length = 64,
                          .recompute_layers = 2,
                          .swap_layers = 1,
                          .loss_chunk = 64};
  const OpGraph graph = build_decoder(tiny_moe(), {128, DType::fp32, 2});
  const Schedule schedule = lower(graph, strategy);
  const Profile profile = profile_of(invented_measurements(Coverage::quick, 2), "machine");
  const Bindings bindings = assumed_bindings(schedule);
  const Prices prices = price(schedule, bindings, profile);
  EXPECT_TRUE(prices.computes_inline);
  for (std::size_t i = 0; i < schedule.works.size(); ++i) {
    if (kernel_class(schedule.works[i].kernel) == KernelClass::host) continue;
    EXPECT_GT(alone(prices.demands[i]).value, 0) << name(schedule.works[i].kernel);
  }
  EXPECT_GT(makespan(simulate(schedule, bindings, prices)).count(), 0);
}

}  // namespace
}  // namespace xt
