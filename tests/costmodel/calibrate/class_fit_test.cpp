#include "costmodel/calibrate/class_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace xt {
namespace {

// A step of measured time one in which classes take what `factors` make of `shares`.
StepShares step(const ClassFactors& factors, ClassFactors shares) {
  StepShares result{shares, 1};
  for (std::size_t c = 0; c < factors.size(); ++c) result.rest -= factors[c] * shares[c];
  return result;
}

TEST(ClassFit, FindsTheFactorsOfManySteps) {
  const ClassFactors factors = {1.2, 1.9, 2.4};
  std::vector<StepShares> steps;
  for (int i = 0; i < 5000; ++i) {
    const double a = 0.1 + 0.001 * (i % 17) * 10, b = 0.05 + 0.01 * (i % 13);
    steps.push_back(step(factors, {a, b, 0.02 + 0.01 * (i % 5)}));
  }
  const ClassFactors found = fit_classes(steps);
  for (std::size_t c = 0; c < factors.size(); ++c)
    EXPECT_NEAR(found[c], factors[c], 0.1 * factors[c]) << c;
}

TEST(ClassFit, KeepsAProfileThatNothingSpeaksAgainst) {
  EXPECT_EQ(fit_classes({}), (ClassFactors{1, 1, 1}));
  const std::vector<StepShares> agreeing(20, step({1, 1, 1}, {0.5, 0.2, 0.1}));
  for (const double factor : fit_classes(agreeing)) EXPECT_NEAR(factor, 1, 1e-12);
}

// One step cannot tell which class is off: it moves what it rests on most, and only part of the
// way.
TEST(ClassFit, OneStepMovesWhatItRestsOn) {
  const std::vector<StepShares> one = {step({2, 2, 2}, {0.4, 0.05, 0})};
  const ClassFactors found = fit_classes(one);
  EXPECT_GT(found[0], 1.2);
  EXPECT_LT(found[0], 2);
  EXPECT_LT(found[1], found[0]);
  EXPECT_EQ(found[2], 1);
}

}  // namespace
}  // namespace xt
