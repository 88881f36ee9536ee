#include "planner/plan/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::plan_of;
using test::with;

const Flags moe = {{"model", "qwen3_30b_a3b"}, {"machine", "h800_sxm"}, {"devices", "64"},
                   {"engine", "xtuner_v1"},    {"pack_length", "8192"}, {"loss_chunk", "1024"}};

std::vector<CommunicatorUse> communicators_of(const Flags& flags) {
  return communicators(estimate(plan_of(flags)).schedule);
}

// The plan on a device with so much memory.
Estimate estimate_with(Plan plan, Bytes memory) {
  plan.profile.memory.value = memory;
  return estimate(plan);
}

TEST(Communicators, OneRankNeedsNone) {
  EXPECT_TRUE(communicators_of({{"model", "tiny_moe"}, {"machine", "h800_sxm"}}).empty());
}

TEST(Communicators, AreOnePerLaneAndGroupOfRanks) {
  // parameters on one lane, the norm and the loss on another; both over all ranks
  const std::vector<CommunicatorUse> all = communicators_of(moe);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].group, (GroupShape{64, 1}));
  EXPECT_EQ(all[1].group, (GroupShape{64, 1}));
  EXPECT_NE(all[0].lane, all[1].lane);
}

TEST(Communicators, OfExpertsExchangeAllToAll) {
  const std::vector<CommunicatorUse> all = communicators_of(with(moe, {{"expert_parallel", "8"}}));
  EXPECT_GT(all.size(), 2U);
  const auto n = std::ranges::count_if(all, &CommunicatorUse::exchanges);
  EXPECT_EQ(n, 1);
  EXPECT_EQ(std::ranges::find_if(all, &CommunicatorUse::exchanges)->group, (GroupShape{8, 1}));
}

// Ulysses exchanges heads between each pair of ranks.
TEST(Communicators, OfExchangesGrowWithTheRanksThatARankIsConnectedTo) {
  const auto memory_of = [](const char* ranks) {
    const Flags more = {{"expert_parallel", "1"}, {"sequence_parallel", ranks}};
    return estimate(plan_of(with(moe, more))).device.communicators.value;
  };
  const std::int64_t two = memory_of("2"), four = memory_of("4"), eight = memory_of("8");
  EXPECT_GT(four, two);
  EXPECT_NEAR(static_cast<double>(eight - four) / static_cast<double>(four - two), 2, 1e-6);
}

// Few channels connect ranks of several nodes.
TEST(Communicators, OfExchangesOverNodesTakeLessThanInsideOne) {
  const auto pairs_of = [](const Flags& more) {
    const Plan plan = plan_of(with(moe, more));
    const DeviceMemory device = estimate(plan).device;
    return device.communicators.value -
           plan.profile.communicator_memory->value.value * device.n_communicators;
  };
  const std::int64_t inside = pairs_of({{"expert_parallel", "8"}});
  const std::int64_t over =
      pairs_of({{"expert_parallel", "16"}, {"expert_parallel_across_nodes", "true"}});
  EXPECT_LT(over, inside / 4);
  EXPECT_EQ(over, plan_of(moe).profile.all_to_all_memory_over_nodes->value.value);
}

// 256 rows of 2048 columns for each of 10 channels and 8 ranks, with 2056 bytes beside each row.
TEST(Communicators, OfCopiesHaveBuffersOfTheLibraryInsteadOfPairs) {
  const Flags copies = {{"expert_parallel", "8"}, {"dispatch", "deep_ep"}};
  const Plan plan = plan_of(with(moe, copies));
  const Estimate answer = estimate(plan);
  EXPECT_TRUE(std::ranges::none_of(communicators(answer.schedule), &CommunicatorUse::exchanges));
  EXPECT_EQ(answer.device.communicators.value -
                plan.profile.communicator_memory->value.value * answer.device.n_communicators,
            10 * 8 * 256 * (2 * 2048 + 2056));
}

TEST(DeviceMemory, IsTheSumOfItsParts) {
  const Plan plan = plan_of(with(moe, {{"expert_parallel", "8"}}));
  const Estimate answer = estimate(plan);
  const DeviceMemory& device = answer.device;
  const Profile& profile = plan.profile;
  EXPECT_EQ(device.allocated, answer.timeline.device_memory.peak);
  EXPECT_EQ(device.communicators, profile.communicator_memory->value * device.n_communicators +
                                      profile.all_to_all_memory->value);
  EXPECT_EQ(device.context, profile.device_context->value);
  EXPECT_EQ(device.p50(), device.reserved_p50 + device.communicators + device.context);
  EXPECT_EQ(device.p95() - device.p50(), device.reserved_p95 - device.reserved_p50);
}

TEST(DeviceMemory, IsAtRiskBetweenWhatHalfOfTheRunsTakeAndNineteenOfTwenty) {
  const Plan plan = plan_of(moe);
  const DeviceMemory device = estimate(plan).device;
  ASSERT_LT(device.p50(), device.p95());
  EXPECT_EQ(estimate_with(plan, device.p95()).fit(), Fit::fits);
  EXPECT_EQ(estimate_with(plan, device.p95() - Bytes(1)).fit(), Fit::at_risk);
  EXPECT_EQ(estimate_with(plan, device.p50()).fit(), Fit::at_risk);
}

// What pools hold beside each other is more than what they need at once.
TEST(DeviceMemory, PoolsGiveBackWhatTheyDoNotUseBeforeARunFails) {
  const Plan plan = plan_of(moe);
  const DeviceMemory device = estimate(plan).device;
  const Bytes needed =
      scaled(device.allocated, plan.profile.reserved_over_allocated.value, Round::up) +
      device.beside();
  ASSERT_LT(needed, device.p50());
  const Estimate full = estimate_with(plan, device.p50() - Bytes(1));
  EXPECT_EQ(full.fit(), Fit::at_risk);
  EXPECT_EQ(full.device.p50(), device.p50() - Bytes(1));
  EXPECT_EQ(estimate_with(plan, needed).fit(), Fit::at_risk);
  EXPECT_EQ(estimate_with(plan, needed - Bytes(1)).fit(), Fit::does_not_fit);
}

TEST(DeviceMemory, AtRiskStillFitsAndSaysSo) {
  Plan plan = plan_of(moe);
  plan.profile.memory.value = estimate(plan).device.p50();
  const Estimate answer = estimate(plan);
  EXPECT_TRUE(answer.fits());
  EXPECT_THAT(estimate_text(plan, answer, Style{}),
              testing::HasSubstr("\nat risk: one run in twenty does not fit; ~"));
  const Json json = estimate_json(plan, answer);
  EXPECT_TRUE(json.at("fits").as_bool());
  EXPECT_FALSE(json.at("fits_p95").as_bool());
  EXPECT_EQ(json.at("verdict").as_text(), "at risk");
}

TEST(DeviceMemory, AHostThatIsTooSmallIsNoRisk) {
  Plan plan = plan_of(with(moe, {{"swap", "all"}}));
  plan.profile.host_memory.value = estimate(plan).timeline.host_memory.peak - Bytes(1);
  EXPECT_EQ(estimate(plan).fit(), Fit::does_not_fit);
}

TEST(DeviceMemory, OfAProfileThatSaysNothingMoreIsWhatTheAllocatorHolds) {
  Plan plan = plan_of(moe);
  plan.profile.reserved_over_allocated_p95.reset();
  plan.profile.device_context.reset();
  plan.profile.communicator_memory.reset();
  plan.profile.all_to_all_memory.reset();
  const DeviceMemory device = estimate(plan).device;
  EXPECT_EQ(device.p50(), device.reserved_p50);
  EXPECT_EQ(device.p95(), device.reserved_p50);
}

}  // namespace
}  // namespace xt
