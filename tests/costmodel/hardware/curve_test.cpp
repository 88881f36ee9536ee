#include "costmodel/hardware/curve.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace xt {
namespace {

TEST(Curve, IsExactAtItsPoints) {
  const Curve curve{{{128, 0.286}, {256, 0.497}, {4096, 0.781}}};
  EXPECT_EQ(curve.at(128), 0.286);
  EXPECT_EQ(curve.at(256), 0.497);
  EXPECT_EQ(curve.at(4096), 0.781);
}

TEST(Curve, IsConstantBeyondTheEnds) {
  const Curve curve{{{128, 0.25}, {256, 0.5}}};
  EXPECT_EQ(curve.at(1), 0.25);
  EXPECT_EQ(curve.at(0), 0.25);
  EXPECT_EQ(curve.at(1e9), 0.5);
}

TEST(Curve, MeetsHalfWayAtTheGeometricMean) {
  // log2 of 64, 256 and 1024 is 6, 8 and 10.
  const Curve curve{{{64, 0.2}, {1024, 0.6}}};
  EXPECT_DOUBLE_EQ(curve.at(256), 0.4);
}

TEST(Curve, WithoutPointsIsOne) { EXPECT_EQ(Curve{}.at(7), 1); }

TEST(Curve, NamesTheFirstPointThatDoesNotAscend) {
  EXPECT_FALSE(problem(Curve{{{64, 0.2}, {1024, 0.6}}}));
  const auto found = problem(Curve{{{64, 0.2}, {64, 0.6}}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->point, 1U);
  EXPECT_EQ(found->message, "point at 64 does not ascend after 64");
  EXPECT_EQ(problem(Curve{{{0, 0.2}}})->message, "point [0, 0.2] is not positive");
}

RC_GTEST_PROP(Curve, RisesWhereItsPointsRise, ()) {
  const auto steps = *rc::gen::container<std::set<int>>(rc::gen::inRange(1, 70000));
  Curve curve;
  for (const int step : steps)
    curve.points.emplace_back(step, 0.125 * static_cast<double>(curve.points.size() + 1));
  const double a = *rc::gen::inRange(1, 70000);
  const double b = *rc::gen::inRange(1, 70000);
  RC_ASSERT(curve.at(std::min(a, b)) <= curve.at(std::max(a, b)));
}

TEST(Surface, OverOneAxisIsACurve) {
  const Surface surface{{{64, 0.2}, {1024, 0.6}}};
  const Curve curve{{{64, 0.2}, {1024, 0.6}}};
  for (const double x : {1.0, 64.0, 100.0, 256.0, 1024.0, 5000.0})
    EXPECT_EQ(surface.at(std::array{x}), curve.at(x)) << x;
}

TEST(Surface, IsExactAtItsPoints) {
  const Surface surface{{{64, 64, 64, 0.5}, {64, 64, 128, 0.7}, {512, 64, 64, 0.8}}};
  EXPECT_EQ(surface.at(std::array{64.0, 64.0, 128.0}), 0.7);
  EXPECT_EQ(surface.at(std::array{512.0, 64.0, 64.0}), 0.8);
}

TEST(Surface, IsTheMeanAtEqualDistance) {
  const Surface surface{{{64, 64, 0.5}, {256, 64, 0.7}}};
  EXPECT_DOUBLE_EQ(surface.at(std::array{128.0, 64.0}), 0.6);
}

TEST(Surface, RefusesPointsAtOnePlace) {
  EXPECT_FALSE(problem(Surface{{{1, 2, 0.5}, {2, 1, 0.5}}}, 2));
  EXPECT_EQ(problem(Surface{{{1, 2, 0.5}, {1, 2, 0.6}}}, 2)->message,
            "point is at the same place as point 1");
  EXPECT_EQ(problem(Surface{{{1, 0.5}}}, 2)->message, "point has 2 numbers, 2 axes need 3");
}

RC_GTEST_PROP(Surface, StaysWithinTheRangeOfItsPoints, ()) {
  const Surface surface{{{64, 64, 0.5}, {256, 64, 0.7}, {300, 5000, 0.9}}};
  const double a = *rc::gen::inRange(0, 70000);
  const double b = *rc::gen::inRange(0, 70000);
  const double value = surface.at(std::array{a, b});
  RC_ASSERT(value >= 0.5 && value <= 0.9);
}

}  // namespace
}  // namespace xt
