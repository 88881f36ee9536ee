// A short measurement on two ranks: everything runs and makes a profile that can be read. What the
// clock says is nobody's claim here.

#include "executor/measure/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/cost/demand.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/yaml.h"
#include "executor/launch/threads.h"
#include "executor/measure/issue_times.h"
#include "executor/measure/kernel_times.h"
#include "executor/measure/overlap.h"
#include "executor/measure/profile_of.h"
#include "executor/measure/traffic_times.h"
#include "tests/executor/ranks.h"

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

void measure_a_little(Rendezvous& rendezvous, GlooNetwork&) {
  Session session(rendezvous.place());
  const RoundPlan once{.doing = "test", .budget_s = 0, .least = 1};
  Measurements found;
  found.machine = {"test", "2026-01-01", "2.11.0", Bytes(1 << 30), session.n_ranks(), 1};
  found.issue = time_issue(session, once);
  Ring ring(largest_call_bytes, small_ring, 1);
  found.kernels = time_kernels(session, cheap_cases(), ring, once);
  found.memory_copies = time_memory_copies(session, small_ring, once);
  found.collectives = time_collectives(session, Coverage::quick, once);
  std::tie(found.to_host, found.to_device) = time_copies(session, Coverage::quick, once);
  found.held = held_shares(session, once);
  require(found.held.size() == 6, "every kind of traffic was measured beside compute");
  require(found.kernels[0].points[0].count() >= session.n_ranks(), "every rank's times are there");
  const Profile profile = profile_of(found, "test");
  require(read<Profile>(parse_yaml({"test.yaml", to_yaml(write(profile))})) == profile,
          "the profile reads back equal");
}

TEST(Measure, OnTwoRanksMakesAProfile) { EXPECT_EQ(run_ranks("measure_a_little", 2), 0); }

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

TEST(Measure, RefusesNoRanks) {
  EXPECT_THAT(refusal(options(0, 1)), testing::HasSubstr("measure nothing"));
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  return xt::ranks_main(argc, argv, {{"measure_a_little", xt::measure_a_little}});
}
