// A short measurement on two ranks: everything runs and makes a profile that can be read. What the
// clock says is nobody's claim here.

#include "executor/measure/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>

#include "costmodel/cost/demand.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/yaml.h"
#include "executor/aten_kernels/aten_kernels.h"
#include "executor/launch/threads.h"
#include "executor/measure/issue_times.h"
#include "executor/measure/kernel_times.h"
#include "executor/measure/overlap.h"
#include "executor/measure/profile_of.h"
#include "executor/measure/traffic_times.h"
#include "tests/executor/ranks.h"
#include "tests/executor/runtime/threaded_streams.h"

namespace xt {
namespace {

constexpr std::int64_t small_ring = std::int64_t{1} << 24;

std::vector<KernelCases> all_cases() {
  std::vector<KernelCases> all = kernel_cases(Coverage::quick);
  std::ranges::move(kernel_cases(Coverage::quick, DType::bf16), std::back_inserter(all));
  return all;
}

// The cheapest few sizes of every kernel.
std::vector<KernelCases> cheap_cases() {
  std::vector<KernelCases> all = all_cases();
  for (KernelCases& cases : all) {
    std::ranges::sort(cases.points, {}, [](const Work& work) {
      return hardware_flops(work, {}).value + static_cast<double>(memory_traffic(work, {}).value);
    });
    cases.points.resize(2);
  }
  return all;
}

Measurements measured_on(Session& session) {
  const RoundPlan once{.doing = "test", .budget_s = 0, .least = 1};
  Measurements found;
  found.machine = {"test", "2026-01-01", "2.11.0", Bytes(1 << 30), session.n_ranks(), 1};
  found.reserved_over_allocated = reserved_over_allocated(session.bench().device());
  found.issue = time_issue(session, once);
  Ring ring(largest_call_bytes(Coverage::quick), small_ring, 1, session.bench().place());
  found.kernels = time_kernels(session, cheap_cases(), ring, once);
  found.memory_copies = time_memory_copies(session, small_ring, once);
  found.collectives = time_collectives(session, Coverage::quick, once);
  std::tie(found.to_host, found.to_device) = time_copies(session, Coverage::quick, once);
  found.held = held_shares(session, once);
  require(found.held.size() == (session.n_ranks() > 1 ? 6 : 2),
          "every kind of traffic was measured beside compute");
  require(found.kernels[0].points[0].count() >= session.n_ranks(), "every rank's times are there");
  return found;
}

Profile read_back(const Measurements& found) {
  const Profile profile = profile_of(found, "test");
  require(read<Profile>(parse_yaml({"test.yaml", to_yaml(write(profile))})) == profile,
          "the profile reads back equal");
  return profile;
}

void measure_a_little(Rendezvous& rendezvous, GlooNetwork&) {
  Session session(rendezvous.place(), bench_device(DeviceChoice::cpu, 0, 1));
  const Profile profile = read_back(measured_on(session));
  require(profile.compute_issue == ComputeIssue::inlined, "a CPU's thread runs what it issues");
}

// Streams of a device that does not exist, with the kernels that a GPU runs.
BenchDevice streams() {
  constexpr std::int64_t plug_bytes = 1 << 20;
  return {[] { return stream_device(threaded_streams()); }, aten_kernels(), true, plug_bytes};
}

void measure_streams(Rendezvous& rendezvous, GlooNetwork&) {
  Session session(rendezvous.place(), streams());
  Measurements found = measured_on(session);
  found.machine.device_memory = Bytes(1 << 20);
  const Profile profile = read_back(found);
  require(profile.compute_issue == ComputeIssue::asynchronous, "it goes on behind its host");
  require(profile.memory.value == Bytes(1 << 20), "the device's memory is its own");
}

TEST(Measure, OnTwoRanksMakesAProfile) { EXPECT_EQ(run_ranks("measure_a_little", 2), 0); }

TEST(Measure, OnStreamsMakesAProfileOfTheirDevice) {
  EXPECT_EQ(run_ranks("measure_streams", 1), 0);
}

// Every call waits for the plug, and those of one lane for each other.
TEST(Bench, CallsOfALaneRunInTheirOrder) {
  for (const BenchDevice& device : {streams(), bench_device(DeviceChoice::cpu, 0, 1)}) {
    Bench bench(device);
    std::vector<int> order;
    std::vector<Bench::Call> calls;
    for (int i = 0; i < 8; ++i) calls.emplace_back([&order, i] { order.push_back(i); });
    const std::vector<double> seconds = bench.seconds(Lane::swap_out, calls);
    EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    EXPECT_THAT(seconds, testing::AllOf(testing::SizeIs(8), testing::Each(testing::Ge(0))));
  }
}

// Two calls that wait for each other end only if they run at once.
TEST(Bench, LanesRunBesideEachOther) {
  Bench bench(streams());
  std::barrier together(2);
  const Bench::Call meet = [&] { together.arrive_and_wait(); };
  const std::vector<Bench::LaneCall> calls = {{Lane::swap_out, meet}, {Lane::compute, meet}};
  const std::vector<Span> spans = bench.spans(calls);
  EXPECT_LT(spans[0].start, spans[1].end);
  EXPECT_LT(spans[1].start, spans[0].end);
}

TEST(Operands, AreInEveryKernelsRoles) {
  std::mt19937_64 random(1);
  for (const KernelCases& cases : all_cases()) {
    const Operands operands = operands_of(cases.points.front(), random);
    const auto n_roles = [](std::string_view roles) {
      return roles.empty() ? 0
                           : 1 + std::ranges::count(roles, ' ') - std::ranges::count(roles, '?');
    };
    const KernelRow& of = row(cases.kernel);
    EXPECT_EQ(std::ssize(operands.inputs), n_roles(of.inputs)) << of.name;
    EXPECT_EQ(std::ssize(operands.outputs), n_roles(of.outputs)) << of.name;
  }
}

TEST(Operands, OfOneCallFollowEachOtherAndTheRingComesRound) {
  std::mt19937_64 random(1);
  const Operands operands = operands_of({Kernel::add, DType::fp32, Group::none, {1000}}, random);
  Ring ring(1 << 16, 1 << 13, 1);  // two calls of 4032 bytes fit into 8192
  const Ring::Call first = ring.next(operands), second = ring.next(operands),
                   third = ring.next(operands);
  EXPECT_EQ(static_cast<std::byte*>(second.inputs[0]) - static_cast<std::byte*>(first.inputs[0]),
            4032);  // 4000 bytes, to the next multiple of 64
  EXPECT_EQ(third.inputs[0], first.inputs[0]);
}

MeasureOptions options(int n_ranks, int threads) {
  return {.out = "never_written.yaml", .n_ranks = n_ranks, .threads = threads};
}

std::string refusal(const MeasureOptions& options) {
  try {
    measure_command(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Measure, RefusesMoreThreadsThanCores) {
  const int cores = available_cores();
  EXPECT_THAT(refusal(options(cores, 2)), testing::HasSubstr("ranks × 2 threads need"));
}

TEST(Measure, RefusesDevicesThatAreNotThere) {
  MeasureOptions unknown = options(1, 1), absent = options(1, 1);
  unknown.device = "tpu";
  absent.device = "cuda";
  EXPECT_THAT(refusal(unknown), testing::HasSubstr("--device is `tpu`"));
  if (cuda_devices().devices.empty()) {
    EXPECT_THAT(refusal(absent), testing::Not(testing::IsEmpty()));
  }
}

TEST(Measure, RefusesNoRanks) {
  EXPECT_THAT(refusal(options(0, 1)), testing::HasSubstr("measure nothing"));
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  return xt::ranks_main(
      argc, argv,
      {{"measure_a_little", xt::measure_a_little}, {"measure_streams", xt::measure_streams}});
}
