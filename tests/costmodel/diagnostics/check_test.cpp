#include "costmodel/diagnostics/check.h"

#include <gtest/gtest.h>

namespace xt {
namespace {

TEST(CheckDeathTest, PrintsTheExpressionAndTheValuesThatBrokeIt) {
  const int from = 7;
  const int to = 3;
  EXPECT_DEATH(XT_CHECK(from < to, from, to), "broken invariant: from < to with 7 3");
}

TEST(Check, LetsATrueConditionPass) { XT_CHECK(1 < 2); }

}  // namespace
}  // namespace xt
