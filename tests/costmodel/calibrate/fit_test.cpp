#include <gtest/gtest.h>

#include <random>

#include "costmodel/calibrate/fit.h"

namespace xt {
namespace {

double scale_of(const std::vector<KernelScale>& scales, Kernel kernel) {
  for (const KernelScale& scale : scales)
    if (scale.kernel == kernel) return scale.scale;
  return 0;
}

TEST(FitScales, ReturnsTheHiddenFactors) {
  std::vector<Observation> observations;
  for (int i = 1; i <= 20; ++i) {
    const Seconds t(i * 1e-4);
    observations.push_back({Kernel::matmul, t, t * 1.3, 10, Seconds()});
    observations.push_back({Kernel::rms_norm, t, t * 0.6, 4, Seconds()});
  }
  const std::vector<KernelScale> scales = fit_scales(observations);
  ASSERT_EQ(scales.size(), 2u);
  EXPECT_NEAR(scale_of(scales, Kernel::matmul), 1.3, 1e-9);
  EXPECT_NEAR(scale_of(scales, Kernel::rms_norm), 0.6, 1e-9);
}

TEST(FitScales, IsNotMovedFarByAFewWildObservations) {
  std::vector<Observation> observations;
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0.0, 0.02);
  for (int i = 0; i < 40; ++i) {
    const double factor = i % 10 == 0 ? 8.0 : 1.2 * (1.0 + noise(random));
    observations.push_back({Kernel::swiglu, Seconds(1e-3), Seconds(1e-3 * factor), 1, Seconds()});
  }
  EXPECT_NEAR(scale_of(fit_scales(observations), Kernel::swiglu), 1.2, 0.05);
}

TEST(FitScales, NeverTakesAnOpBelowItsFloor) {
  const std::vector<Observation> observations = {
      {Kernel::matmul, Seconds(1e-3), Seconds(0.5e-3), 1, Seconds(0.8e-3)}};
  EXPECT_NEAR(scale_of(fit_scales(observations), Kernel::matmul), 0.8, 1e-12);
}

TEST(FitScales, StaysWithinFive) {
  const std::vector<Observation> observations = {
      {Kernel::add, Seconds(1e-3), Seconds(1.0), 1, Seconds()}};
  EXPECT_DOUBLE_EQ(scale_of(fit_scales(observations), Kernel::add), 5.0);
}

TEST(FitScales, WhatAStepSpendsLongOnWeighsMost) {
  // half of the shapes say 1, half say 2, but the latter take 100 times the time
  std::vector<Observation> observations;
  for (int i = 0; i < 10; ++i) {
    observations.push_back({Kernel::add, Seconds(1e-5), Seconds(1e-5), 1, Seconds()});
    observations.push_back({Kernel::add, Seconds(1e-3), Seconds(2e-3), 1, Seconds()});
  }
  EXPECT_GT(scale_of(fit_scales(observations), Kernel::add), 1.9);
}

}  // namespace
}  // namespace xt
