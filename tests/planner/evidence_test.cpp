// What a prediction rests on: shares by grade, and the weakest number that matters.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Plan plan_on(const std::string& machine, const Flags& more = {}) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"machine", machine},
                       {"devices", "64"},          {"engine", "xtuner_v1"},
                       {"pack_length", "16384"},   {"sample_length", "4096"},
                       {"loss_chunk", "1024"},     {"expert_parallel", "4"}};
  return test::plan_of(test::with(flags, more));
}

TEST(Evidence, SharesAndIdleTimeMakeUpTheStep) {
  for (const char* machine : {"h800_sxm", "ascend_a3"}) {
    const Estimate answer = estimate(plan_on(machine));
    const auto& grades = answer.evidence.by_grade;
    const double rests = std::accumulate(grades.begin(), grades.end(), 0.0);
    EXPECT_NEAR(rests + answer.account.idle / answer.account.step, 1, 0.02) << machine;
    double numbers = 0;
    for (const EvidenceShare& of : answer.evidence.numbers) numbers += of.share;
    EXPECT_NEAR(numbers, rests, 1e-9) << machine;
  }
}

// Ranks that share products gather on two lanes at once; no time is counted twice.
TEST(Evidence, SharesOfLanesThatRunTogetherMakeUpNoMoreThanTheStep) {
  for (const char* engine : {"megatron", "torchtitan"}) {
    const Estimate answer = estimate(test::plan_of({{"model", "llama3_1_8b"},
                                                    {"machine", "h200_sxm"},
                                                    {"devices", "64"},
                                                    {"engine", engine},
                                                    {"tensor_parallel", "4"}}));
    const auto& grades = answer.evidence.by_grade;
    const double rests = std::accumulate(grades.begin(), grades.end(), 0.0);
    EXPECT_NEAR(rests + answer.account.idle / answer.account.step, 1, 1e-6) << engine;
  }
}

TEST(Evidence, FollowsTheGradeOfTheNumberThatDecides) {
  Plan plan = plan_on("h800_sxm");
  const double before = estimate(plan).evidence.by_grade[static_cast<std::size_t>(Grade::estimate)];
  plan.profile.attention.length.from.grade = Grade::estimate;
  const Estimate after = estimate(plan);
  double attention = 0;
  for (const EvidenceShare& of : after.evidence.numbers)
    if (of.number.path == "attention.length") attention = of.share;
  EXPECT_GT(attention, 0.01);
  EXPECT_NEAR(after.evidence.by_grade[static_cast<std::size_t>(Grade::estimate)],
              before + attention, 1e-9);
}

TEST(Evidence, NamesTheLargestOfTheLeastTrustedNumbersThatMatter) {
  Evidence evidence;
  const auto add = [&](const char* path, Grade grade, double share) {
    evidence.numbers.push_back({{path, {"somebody", grade}}, share});
  };
  add("a", Grade::measured, 0.6);
  add("b", Grade::derived, 0.2);
  add("c", Grade::derived, 0.1);
  add("d", Grade::estimate, 0.04);
  EXPECT_EQ(weakest_that_matters(evidence)->number.path, "b");
  evidence.numbers.clear();
  EXPECT_EQ(weakest_that_matters(evidence), nullptr);
}

TEST(Evidence, IntervalsWidenWithTheShareOfEstimates) {
  Evidence evidence;
  evidence.numbers = {{{"a", {"somebody", Grade::derived}}, 0.6},
                      {{"b", {"nobody", Grade::estimate}}, 0.4}};
  EXPECT_NEAR(relative_deviation(evidence), std::hypot(0.6 * 0.12, 0.4 * 0.25), 1e-12);
  const Interval interval = interval_80(10, 0.1);
  EXPECT_NEAR(interval.low * interval.high, 100, 1e-9);
  EXPECT_NEAR(std::log(interval.high / 10), 0.12816, 1e-5);
  EXPECT_GT(estimate(plan_on("ascend_a3")).deviation, estimate(plan_on("h800_sxm")).deviation);
}

TEST(Evidence, RowsOfTheFullestRankLengthenTheStepAndCountForNoFlops) {
  const Estimate even = estimate(plan_on("h800_sxm"));
  const Estimate skewed = estimate(plan_on("h800_sxm", {{"routing_imbalance", "1.5"}}));
  EXPECT_GT(skewed.account.step, 1.05 * even.account.step);
  EXPECT_GT(skewed.timeline.device_memory.peak, even.timeline.device_memory.peak);
  EXPECT_EQ(skewed.model_flops, even.model_flops);
}

}  // namespace
}  // namespace xt
