// What it costs to believe the prediction of which layout is fastest.

#include "planner/validate/layouts.h"

#include <gtest/gtest.h>

#include "tests/planner/published_rows.h"

namespace xt {
namespace {

using test::outcome_of;
using test::row_of;
using test::with_tokens;

TEST(Layouts, RegretIsWhatTheChosenOneIsSlowerThanTheFastest) {
  EXPECT_DOUBLE_EQ(regret({{100, 90}, {80, 95}, {60, 10}}), 1 - 80.0 / 100);
  EXPECT_DOUBLE_EQ(regret({{100, 96}, {80, 95}}), 0);
}

TEST(Layouts, RankCorrelationKnowsOrderOnly) {
  EXPECT_EQ(rank_correlation({{1, 1}, {2, 2}}), std::nullopt);
  EXPECT_DOUBLE_EQ(*rank_correlation({{1, 10}, {2, 11}, {9, 300}}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation({{1, 30}, {2, 20}, {3, 10}}), -1);
  // ranks 1 2 3 against 1.5 1.5 3: 1.5 / sqrt(2 * 1.5)
  EXPECT_NEAR(*rank_correlation({{1, 5}, {2, 5}, {3, 9}}), 0.866, 1e-3);
}

TEST(Layouts, OnlyWhatDiffersInLayoutIsCompared) {
  std::vector<PublishedRow> rows = {with_tokens(row_of("one-a"), 100),
                                    with_tokens(row_of("one-b"), 50)};
  const auto layouts_of = [&] { return score(rows, {outcome_of(90), outcome_of(95)}).layouts; };
  EXPECT_TRUE(layouts_of().empty());
  rows[1].micro_batch_size *= 2;
  ASSERT_EQ(layouts_of().size(), 1u);
  EXPECT_DOUBLE_EQ(layouts_of().front().regret, 0.5);
  rows[1].devices *= 2;
  EXPECT_TRUE(layouts_of().empty());
}

}  // namespace
}  // namespace xt
