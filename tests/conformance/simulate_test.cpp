// The rules of schedules against the simulator.

#include "costmodel/sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "costmodel/ir/verify.h"
#include "tests/conformance/random_schedule.h"
#include "tests/conformance/rules.h"

namespace xt {
namespace {

using testing::IsEmpty;

/// Demands that differ by work, some of them zero, that compete for two resources.
Prices random_prices(const Schedule& schedule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto seconds = [&] { return Seconds(static_cast<double>(random() % 8) * 1e-6); };
  Prices prices;
  prices.computes_inline = seed % 2 == 0;
  for (std::size_t i = 0; i < schedule.works.size(); ++i) {
    Demand demand;
    demand.latency = seconds();
    demand.on(Resource::hbm) = seconds();
    demand.on(Resource::host_memory) = seconds();
    demand.issue = seconds();
    prices.demands.push_back(demand);
  }
  return prices;
}

class SimulatedSchedules : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SimulatedSchedules, AreValid) {
  EXPECT_THAT(verify(random_schedule(GetParam())), IsEmpty());
}

TEST_P(SimulatedSchedules, KeepTheRulesUnderContention) {
  const Schedule schedule = random_schedule(GetParam());
  const Prices prices = random_prices(schedule, GetParam());
  EXPECT_THAT(broken_rules(schedule, simulate(schedule, assumed_bindings(schedule), prices)),
              IsEmpty());
}

TEST_P(SimulatedSchedules, KeepTheRulesWithoutContention) {
  const Schedule schedule = random_schedule(GetParam());
  const Prices prices = random_prices(schedule, GetParam());
  EXPECT_THAT(broken_rules(schedule, forward_pass(schedule, assumed_bindings(schedule), prices)),
              IsEmpty());
}

TEST_P(SimulatedSchedules, PeakWhereTheMemoryCurveDoes) {
  const Schedule schedule = random_schedule(GetParam());
  const Bindings bindings = assumed_bindings(schedule);
  const Timeline timeline = simulate(schedule, bindings, random_prices(schedule, GetParam()));
  for (const Space space : {Space::device, Space::host}) {
    Bytes highest;
    for (const Bytes bytes : memory_curve(schedule, bindings, space))
      highest = std::max(highest, bytes);
    const MemoryPeak& peak = space == Space::device ? timeline.device_memory : timeline.host_memory;
    EXPECT_EQ(peak.peak, highest);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulatedSchedules, testing::Range<std::uint64_t>(1, 41));

}  // namespace
}  // namespace xt
