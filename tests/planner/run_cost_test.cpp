// What a whole run takes: steps, time, device hours, money.

#include "planner/estimate/run_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using testing::HasSubstr;

constexpr double tokens = 1e12;

RunCost cost_of(const Plan& plan) {
  return *run_cost(plan, estimate(plan).account.step, estimate(plan).deviation);
}

Plan plan_of_run(const Flags& more) {
  return test::plan_on_16_h100(
      test::with({{"engine", "xtuner_v1"}, {"train_tokens", "1e12"}}, more));
}

TEST(RunCost, IsWholeStepsOnAllDevices) {
  const Plan plan = plan_of_run({{"device_hour_price", "2.5"}});
  const Seconds step = estimate(plan).account.step;
  const RunCost run = cost_of(plan);
  const auto of_step = static_cast<double>(plan.strategy.tokens_per_step());
  EXPECT_GE(static_cast<double>(run.steps) * of_step, tokens);
  EXPECT_LT(static_cast<double>(run.steps - 1) * of_step, tokens);
  EXPECT_EQ(run.time, static_cast<double>(run.steps) * step);
  EXPECT_DOUBLE_EQ(run.device_hours, 16 * run.time.value / 3600);
  EXPECT_DOUBLE_EQ(*run.money, 2.5 * run.device_hours);
  EXPECT_LT(run.interval_80.low, run.time.value);
  EXPECT_GT(run.interval_80.high, run.time.value);
}

TEST(RunCost, CountsPackagesNotTheirRanks) {
  const Plan plan = test::plan_of({{"model", "qwen3_8b"},
                                   {"machine", "ascend_a3"},
                                   {"devices", "16"},
                                   {"engine", "xtuner_v1"},
                                   {"train_tokens", "1e9"}});
  ASSERT_EQ(plan.strategy.ranks, 32);
  const RunCost run = cost_of(plan);
  EXPECT_DOUBLE_EQ(run.device_hours, 16 * run.time.value / 3600);
}

TEST(RunCost, CountsNoPadding) {
  const RunCost full = cost_of(plan_of_run({}));
  const RunCost half_empty = cost_of(plan_of_run({{"sample_length", "2049"}}));
  EXPECT_NEAR(static_cast<double>(half_empty.steps) / static_cast<double>(full.steps),
              4096.0 / 2049, 1e-4);
}

TEST(RunCost, OfAPipelineIsThatOfItsRanks) {
  const Plan plan = test::plan_in_stages({{"train_tokens", "1e9"}});
  EXPECT_DOUBLE_EQ(cost_of(plan).device_hours * 3600 * tokens_per_device_s(plan, estimate(plan)),
                   static_cast<double>(cost_of(plan).steps * plan.strategy.tokens_per_step()));
}

TEST(RunCost, IsSaidInTrillionsWithItsIntervalAndItsPrice) {
  const Plan plan = plan_of_run({{"device_hour_price", "2"}});
  const std::string text = run_cost_text(plan, run_cost(plan, Seconds(0.8192), 0.1));
  // 16 packs of 4096 tokens a step: 15258790 steps, 144.68 days, 55554 hours of 16 devices.
  EXPECT_THAT(text, HasSubstr("1 T tokens in 15258790 steps: ~145 d ("));
  EXPECT_THAT(text, HasSubstr("~55600 device hours, which at 2 each cost ~111000 ("));
}

TEST(RunCost, IsNotSaidOfARunWithoutTokens) {
  const Plan plan = test::plan_on_16_h100({});
  EXPECT_FALSE(run_cost(plan, Seconds(1), 0).has_value());
  EXPECT_EQ(run_cost_text(plan, std::nullopt), "");
}

TEST(RunCost, HasNoPriceWithoutALength) {
  EXPECT_THAT(test::refusal_by([] {
                return test::plan_on_16_h100({{"device_hour_price", "2"}});
              }),
              HasSubstr("device-hour-price: error: says what a run costs, but not how long it is"));
}

// Steps of so many tokens are more than 64 bits count, and their time would be negative.
TEST(RunCost, OfMoreTokensThanThereAreIsRefused) {
  const auto refusal = [](const Flags& flags) {
    return test::refusal_by([&] { return plan_of_run(flags); });
  };
  EXPECT_THAT(refusal({{"train_tokens", "1e30"}}), HasSubstr("must be at most"));
  EXPECT_THAT(refusal({{"device_hour_price", "1e30"}}), HasSubstr("must be at most"));
  EXPECT_GT(cost_of(plan_of_run({{"train_tokens", "1e18"}})).time.value, 0);
}

}  // namespace
}  // namespace xt
