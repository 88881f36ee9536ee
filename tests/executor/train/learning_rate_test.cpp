#include "executor/train/learning_rate.h"

#include <gtest/gtest.h>

namespace xt {
namespace {

PlanOptimizer optimizer(LearningRateSchedule schedule) {
  PlanOptimizer of;
  of.learning_rate = 1e-2;
  of.min_learning_rate = 1e-3;
  of.learning_rate_schedule = schedule;
  of.warmup_steps = 4;
  of.decay_steps = 14;
  return of;
}

TEST(LearningRate, RisesInAStraightLineAndReachesTheHighestWithTheLastStepOfWarmUp) {
  for (const auto schedule : {LearningRateSchedule::constant, LearningRateSchedule::linear,
                              LearningRateSchedule::cosine}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(schedule), 1), 0.25e-2);
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(schedule), 4), 1e-2);
  }
}

TEST(LearningRate, StaysWhereItIsConstant) {
  PlanOptimizer of = optimizer(LearningRateSchedule::constant);
  of.warmup_steps = of.decay_steps = 0;
  for (const std::int64_t step : {1, 5, 1'000'000})
    EXPECT_DOUBLE_EQ(learning_rate_at(of, step), 1e-2);
}

TEST(LearningRate, IsHalfWayDownHalfWayThereAndStaysAtTheLowest) {
  for (const auto schedule : {LearningRateSchedule::linear, LearningRateSchedule::cosine}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(schedule), 9), 5.5e-3);
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(schedule), 14), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(schedule), 400), 1e-3);
  }
  EXPECT_DOUBLE_EQ(learning_rate_at(optimizer(LearningRateSchedule::linear), 5), 1e-2 - 0.9e-3);
  EXPECT_NEAR(learning_rate_at(optimizer(LearningRateSchedule::cosine), 5), 9.7797544e-3, 1e-9);
}

}  // namespace
}  // namespace xt
