// A measured step against its prediction, where ranks had unequal data.

#include "planner/compare/compare.h"

#include <gtest/gtest.h>

#include "costmodel/sim/simulate.h"
#include "planner/compare/calibration.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

constexpr std::int64_t surplus = 1500;  // rows that the second rank has more than its share

/// Bindings with `rows` more of the rows that any exchange brings.
Bindings with_rows(const Schedule& schedule, std::int64_t rows) {
  Bindings bindings = assumed_bindings(schedule);
  for (std::size_t i = 0; i < bindings.size(); ++i)
    if (schedule.symbols[i].kind == SymbolKind::rows_received) bindings[i] += rows;
  return bindings;
}

/// A step of two ranks, as predicted but for the router, which sends more to the second rank; the
/// first waits for it.
MeasuredPlan plan_with_a_fuller_rank() {
  const Plan plan = test::plan_of({{"model", "demo_moe"},
                                   {"machine", "h100_sxm"},
                                   {"devices", "2"},
                                   {"engine", "xt_run"},
                                   {"expert_parallel", "2"},
                                   {"pack_length", "4096"}});
  MeasuredPlan measured;
  measured.schedule = estimate(plan).schedule;
  measured.profile = plan.profile;
  const auto step = [&](const Bindings& bindings) {
    return simulate(measured.schedule, bindings,
                    price(measured.schedule, bindings, measured.profile));
  };
  measured.predicted = step(assumed_bindings(measured.schedule));
  for (const std::int32_t rank : {0, 1}) {
    measured.measured.push_back(step(with_rows(measured.schedule, surplus)));
    measured.measured.back().rank = rank;
    measured.measured.back().bindings = {
        with_rows(measured.schedule, rank == 1 ? surplus : -surplus)};
    measured.clock_offsets.emplace_back();
    measured.step_starts.emplace_back();
  }
  return measured;
}

TEST(Compare, CountsWhatTheFullerRankTakesAsDataNotAsCost) {
  const Comparison found = compare(plan_with_a_fuller_rank());
  EXPECT_GT(found.on_data, found.predicted * 1.02);
  EXPECT_EQ(found.on_data, found.measured);
}

TEST(Compare, SaysHowMuchMoreRowsTheFullestRankHas) {
  const std::int64_t mean = 2 * 4096;  // of a token's experts each rank has a half
  EXPECT_DOUBLE_EQ(*compare(plan_with_a_fuller_rank()).routing_imbalance,
                   static_cast<double>(mean + surplus) / static_cast<double>(mean));
}

TEST(Compare, HoldsDurationsOfTheFullerRankToItsOwnRows) {
  for (const Observation& observation : observe(plan_with_a_fuller_rank())) {
    if (kernel_class(observation.kernel) != KernelClass::grouped_matrix) continue;
    EXPECT_NEAR(observation.measured / observation.predicted, 1, 1e-6) << name(observation.kernel);
  }
}

}  // namespace
}  // namespace xt
