#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/hardware/collective.h"
#include "costmodel/ir/account.h"
#include "costmodel/sim/bound.h"
#include "costmodel/sim/simulate.h"
#include "planner/plan/plan.h"
#include "strategies.h"

namespace xt::test {
namespace {

constexpr int n_cases = 12;

// `visit(case, schedule, bindings, prices)` on every profile that covers the case.
template <typename Visit>
void for_each_priced(int n, Visit visit) {
  const Catalogue catalogue{XT_DATA_ROOT};
  for (const std::string& machine : catalogue.machine_names()) {
    const Profile profile = catalogue.machine(machine);
    for_each_case(n, [&](const Case& drawn) {
      if (!profile.peak(drawn.strategy.compute_dtype)) return;
      if (drawn.strategy.optimizer == Optimizer::muon && !profile.peak(DType::bf16)) return;
      if (drawn.strategy.offloads_optimizer && !profile.host_memory_bandwidth) return;
      if (drawn.strategy.has_fp8_products && !profile.peak(DType::fp8)) return;
      const Schedule schedule = drawn.schedule();
      for (const GroupShape& group : schedule.groups)
        if (!covers(profile, group)) return;
      const Bindings bindings = assumed_bindings(schedule);
      visit(drawn, schedule, bindings, price(schedule, bindings, profile));
    });
  }
}

// The longest chain through dependencies, lanes and the host, section by section: written here
// without the simulator.
Duration longest_chain(const Schedule& schedule, const Prices& prices) {
  Duration total{};
  for (const Section& section : schedule.sections) {
    std::vector<Duration> ends(at(section.end) - at(section.begin));
    std::array<Duration, n_lanes> lanes{};
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
      Duration start = lanes[static_cast<std::size_t>(op.lane)];
      for (const OpId dependency : schedule.dependencies_of(op))
        if (at(dependency) >= at(section.begin))
          start = std::max(start, ends[at(dependency) - at(section.begin)]);
      const Duration end = start + quantize(alone(prices.demands[at(op.work)]));
      ends[i - at(section.begin)] = lanes[static_cast<std::size_t>(op.lane)] = end;
    }
    total += *std::max_element(ends.begin(), ends.end()) * section.repeat;
  }
  return total;
}

Duration sum_of_all(const Schedule& schedule, const Prices& prices) {
  Duration total{};
  for (const Section& section : schedule.sections) {
    Duration once{};
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Demand& demand = prices.demands[at(schedule.ops[i].work)];
      once += quantize(alone(demand)) + quantize(demand.issue);
    }
    total += once * section.repeat;
  }
  return total;
}

TEST(SimulationLaws, AStepLiesBetweenItsLongestChainAndTheSumOfItsOps) {
  for_each_priced(n_cases, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                              const Prices& prices) {
    const Duration step = makespan(forward_pass(schedule, bindings, prices));
    EXPECT_LE(longest_chain(schedule, prices), step) << drawn.text();
    EXPECT_LE(step, sum_of_all(schedule, prices)) << drawn.text();
  });
}

// Seconds that all ops of a step need of `resource`.
double busy(const Schedule& schedule, const Prices& prices, Resource resource) {
  double total = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i)
      total += section.repeat * prices.demands[at(schedule.ops[i].work)].on(resource).value;
  return total;
}

// The roofline of a whole step: no resource gives more than all of itself. An op is quantised to
// whole nanoseconds.
TEST(SimulationLaws, AStepTakesNoLessThanItsBusiestResource) {
  for_each_priced(n_cases, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                              const Prices& prices) {
    const double step = to_seconds(makespan(simulate(schedule, bindings, prices))).value;
    const double rounding = 1e-9 * static_cast<double>(schedule.ops.size()) *
                            static_cast<double>(drawn.strategy.gradient_accumulation);
    for (const Resource resource : {Resource::matrix, Resource::scale_up, Resource::scale_out})
      EXPECT_LE(busy(schedule, prices, resource), step + rounding)
          << resource_names[static_cast<std::size_t>(resource)] << " " << drawn.text();
  });
}

TEST(SimulationLaws, NoStepIsShorterThanItsLowerBound) {
  for_each_priced(n_cases, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                              const Prices& prices) {
    const Duration bound = lower_bound(schedule, prices);
    EXPECT_LE(bound, makespan(simulate(schedule, bindings, prices))) << drawn.text();
    EXPECT_LE(bound, makespan(forward_pass(schedule, bindings, prices))) << drawn.text();
  });
}

TEST(SimulationLaws, ContentionNeverShortensAStep) {
  for_each_priced(n_cases, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                              const Prices& prices) {
    EXPECT_LE(makespan(forward_pass(schedule, bindings, prices)),
              makespan(simulate(schedule, bindings, prices)))
        << drawn.text();
  });
}

TEST(SimulationLaws, EventsKeepTheOrderOfLanesAndDependencies) {
  for_each_priced(4, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                        const Prices& prices) {
    const Timeline timeline = simulate(schedule, bindings, prices);
    std::vector<Instant> ends(schedule.ops.size());
    std::array<Instant, n_lanes> lanes{};
    for (const Event& event : timeline.events) {
      const Op& op = schedule.op(event.op);
      Instant& lane = lanes[static_cast<std::size_t>(op.lane)];
      ASSERT_GE(event.start, lane) << drawn.text() << op_name(schedule, event.op);
      for (const OpId dependency : schedule.dependencies_of(op))
        ASSERT_GE(event.start, ends[at(dependency)]) << drawn.text();
      ends[at(event.op)] = lane = event.end;
    }
  });
}

TEST(SimulationLaws, OneLaneTakesTheSumOfItsOps) {
  for_each_priced(4, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                        const Prices& prices) {
    Schedule serial = schedule;
    for (Op& op : serial.ops) op.lane = Lane::compute;
    Prices no_issue = prices;
    for (Demand& demand : no_issue.demands) demand.issue = Seconds();
    EXPECT_EQ(makespan(simulate(serial, bindings, no_issue)), sum_of_all(serial, no_issue))
        << drawn.text();
  });
}

TEST(SimulationLaws, RenamingBuffersAndPartsChangesNothing) {
  for_each_priced(2, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                        const Prices& prices) {
    Schedule renamed = schedule;
    for (std::string& part : renamed.parts) part += "_renamed";
    EXPECT_EQ(simulate(schedule, bindings, prices).events,
              simulate(renamed, bindings, prices).events)
        << drawn.text();
  });
}

TEST(SimulationLaws, ReplayOfAContentionFreePassReturnsIt) {
  for_each_priced(4, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                        const Prices& prices) {
    const Timeline pass = forward_pass(schedule, bindings, prices);
    EXPECT_EQ(replay(schedule, pass, prices).end, pass.end) << drawn.text();
  });
}

TEST(SimulationLaws, ExposedTrafficIsPartOfAllTrafficAndOfWhatComputeLeaves) {
  for_each_priced(n_cases, [](const Case& drawn, const Schedule& schedule, const Bindings& bindings,
                              const Prices& prices) {
    const StepAccount sum = account(schedule, simulate(schedule, bindings, prices));
    for (const TrafficTime& time : sum.traffic) {
      EXPECT_LE(time.exposed, time.total) << drawn.text();
      EXPECT_LE(time.exposed.value, (sum.step - sum.compute).value + 1e-9) << drawn.text();
    }
    EXPECT_LE((sum.compute + sum.idle).value, sum.step.value + 1e-9) << drawn.text();
  });
}

}  // namespace
}  // namespace xt::test
