#include "executor/kernels/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace xt {
namespace {

TEST(Exponential, IsGoodToTwoUnitsInTheLastPlace) {
  for (float x = -86.9f; x < 87.9f; x += 0.0137f) {
    const double want = std::exp(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(exponential(x)) / want, 1, 2.4e-7) << x;
  }
  EXPECT_EQ(exponential(0.0f), 1.0f);
}

TEST(Exponential, StaysFiniteAndKeepsNaN) {
  EXPECT_EQ(exponential(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isfinite(exponential(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
}

TEST(Put, RoundsBf16LikeC10) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, -3.14159f, 1e-40f, 3.4e38f,
                            infinity, -infinity}) {
    c10::BFloat16 got;
    put(got, value);
    EXPECT_EQ(got.x, c10::BFloat16(value).x) << value;
  }
  c10::BFloat16 not_a_number;
  put(not_a_number, std::nanf(""));
  EXPECT_TRUE(std::isnan(wide(not_a_number)));
}

}  // namespace
}  // namespace xt
