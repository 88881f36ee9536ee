// What published rows say of their routers.

#include "planner/validate/row_routing.h"

#include <gtest/gtest.h>

#include "tests/planner/published_rows.h"

namespace xt {
namespace {

// Over 64 experts.
PublishedRow routed_row(std::int64_t ranks, const std::string& notes) {
  PublishedRow row = test::row_of("routed");
  row.model.num_experts = 64;
  row.parallel.ep = ranks;
  row.notes = notes;
  return row;
}

TEST(RowRouting, ANaturalRouterIsAsUnequalAsTheTwoRunsThatDifferInItSay) {
  EXPECT_NEAR(routing_imbalance(routed_row(8, "natural routing")), 1.48, 0.01);
  EXPECT_NEAR(routing_imbalance(routed_row(8, "mask on packed C4 text")), 1.48, 0.01);
}

TEST(RowRouting, RanksWithMoreExpertsEachAreMoreAlike) {
  double before = 1;
  for (const std::int64_t ranks : {2, 4, 8, 16, 32, 64}) {
    const double imbalance = routing_imbalance(routed_row(ranks, "natural routing"));
    EXPECT_GT(imbalance, before) << ranks;
    EXPECT_LT(imbalance, static_cast<double>(ranks));  // or no plan would take it
    before = imbalance;
  }
}

TEST(RowRouting, ForcedOrUnknownOrUnsharedExpertsAreEqual) {
  EXPECT_EQ(routing_imbalance(routed_row(8, "forced balance")), 1);
  EXPECT_EQ(routing_imbalance(routed_row(8, "")), 1);
  EXPECT_EQ(routing_imbalance(routed_row(1, "natural routing")), 1);
}

}  // namespace
}  // namespace xt
