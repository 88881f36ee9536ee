#include "costmodel/units/normal.h"

#include <gtest/gtest.h>

#include <utility>

namespace xt {
namespace {

// Abramowitz, Stegun 1964, table 26.5; the last row from 26.6.
TEST(NormalQuantile, AgreesWithTables) {
  for (const auto& [p, z] : {std::pair{0.5, 0.0},
                             {0.75, 0.674490},
                             {0.975, 1.959964},
                             {0.999, 3.090232},
                             {1 - 1e-9, 5.997807}}) {
    EXPECT_NEAR(normal_quantile(p), z, 5e-6);
    EXPECT_NEAR(normal_quantile(1 - p), -z, 5e-6);
  }
}

// Harter 1961, "Expected values of normal order statistics", Biometrika 48, table 1.
TEST(LargestNormal, AgreesWithTables) {
  EXPECT_EQ(largest_normal_of(1), 0);
  for (const auto& [n, largest] :
       {std::pair{2, 0.56419}, {8, 1.42360}, {32, 2.06967}, {100, 2.50759}, {400, 2.96817}})
    EXPECT_NEAR(largest_normal_of(n), largest, 0.026) << n;
}

}  // namespace
}  // namespace xt
