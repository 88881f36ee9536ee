#include <gtest/gtest.h>

#include <array>

#include "costmodel/ir/schedule_builder.h"
#include "costmodel/sim/simulate.h"

namespace xt {
namespace {

using namespace literals;

// A schedule of ops with stated demands; op i has work i.
class Case {
 public:
  Case() : build_("test", 2) { part_ = build_.part("part"); }

  OpId op(Lane lane, Demand demand, std::initializer_list<OpId> after = {}) {
    Work work;
    work.kernel = lane == Lane::host ? Kernel::wait : Kernel::add;
    work.extents[0] = static_cast<std::int64_t>(prices_.demands.size());
    prices_.demands.push_back(demand);
    const BufferId out =
        build_.transient({{1, 1, 1}, DType::fp32, MemoryCategory::other, Space::device, lane});
    const std::array<BufferId, 1> outputs{out};
    return build_.add({work,
                       lane,
                       Origin{Phase::forward, part_, -1, -1},
                       {},
                       outputs,
                       {},
                       {after.begin(), after.size()}});
  }
  Timeline run(bool computes_inline = false) {
    build_.end_section(repeat_, Origin{Phase::forward, part_, -1, -1});
    prices_.demands.push_back({});
    prices_.computes_inline = computes_inline;
    const Schedule schedule = std::move(build_).finish();
    return simulate(schedule, {}, prices_);
  }
  void repeat(std::int32_t n) { repeat_ = n; }

 private:
  ScheduleBuilder build_;
  Prices prices_;
  std::uint8_t part_ = 0;
  std::int32_t repeat_ = 1;
};

Demand on(Resource resource, Seconds busy, double holds = 0) {
  Demand demand;
  demand.on(resource) = busy;
  demand.holds = holds;
  return demand;
}

std::int64_t ms(Instant instant) { return (instant - Instant{}).count() / 1'000'000; }

TEST(Simulate, LanesRunSideBySideAndDependenciesWait) {
  // compute a [0,10), gather [0,4), compute b after both: lane makes it 10, [10,13)
  Case c;
  c.op(Lane::compute, on(Resource::matrix, 10.0_ms));
  const OpId gather = c.op(Lane::all_gather, on(Resource::scale_up, 4.0_ms));
  c.op(Lane::compute, on(Resource::matrix, 3.0_ms), {gather});
  const Timeline timeline = c.run();
  EXPECT_EQ(ms(timeline.events[2].start), 10);
  EXPECT_EQ(ms(timeline.end), 13);
}

TEST(Simulate, ComputeGetsWhatTrafficDoesNotHold) {
  // traffic holds 1/4 of compute for 6 ms: compute has done 6 · 3/4 = 4.5 of its 10 ms by then, and
  // ends 5.5 ms later
  Case c;
  c.op(Lane::compute, on(Resource::matrix, 10.0_ms));
  c.op(Lane::all_gather, on(Resource::scale_up, 6.0_ms, 0.25));
  const Timeline timeline = c.run();
  EXPECT_EQ(ms(timeline.events[1].end), 6);
  EXPECT_NEAR(to_seconds(timeline.events[0].end - Instant{}).value, 0.0115, 1e-8);
}

TEST(Simulate, LatencyIsNotSlowedByTraffic) {
  // 2 ms latency + 8 ms work beside traffic that holds half throughout: 2 + 16
  Case c;
  Demand demand = on(Resource::matrix, 8.0_ms);
  demand.latency = 2.0_ms;
  c.op(Lane::compute, demand);
  c.op(Lane::all_gather, on(Resource::scale_up, 40.0_ms, 0.5));
  EXPECT_NEAR(to_seconds(c.run().events[0].end - Instant{}).value, 0.018, 1e-8);
}

TEST(Simulate, TwoTransfersOnOneLinkTakeTheSumOfTheirTimes) {
  // both want all of the link: each at half speed until the shorter has moved its 4 ms at 8 ms, the
  // other then has 2 of 6 left: 10 ms in all
  Case c;
  c.op(Lane::all_gather, on(Resource::scale_up, 6.0_ms, 0.1));
  c.op(Lane::reduce_scatter, on(Resource::scale_up, 4.0_ms, 0.1));
  const Timeline timeline = c.run();
  EXPECT_EQ(ms(timeline.events[1].end), 8);
  EXPECT_EQ(ms(timeline.events[0].end), 10);
}

TEST(Simulate, TransfersOnDifferentLinksDoNotMeet) {
  Case c;
  c.op(Lane::swap_out, on(Resource::host_link_up, 6.0_ms, 0.1));
  c.op(Lane::swap_in, on(Resource::host_link_down, 4.0_ms, 0.1));
  EXPECT_EQ(ms(c.run().end), 6);
}

TEST(Simulate, SmallOpsAreBoundByTheirLaunch) {
  // three ops of 1 ms, 3 ms to issue each: issued at 3, 6, 9; the last ends at 10
  Case c;
  Demand demand = on(Resource::matrix, 1.0_ms);
  demand.issue = 3.0_ms;
  for (int i = 0; i < 3; ++i) c.op(Lane::compute, demand);
  EXPECT_EQ(ms(c.run().end), 10);
}

TEST(Simulate, AnInlineMachineIssuesTrafficOnlyWhenComputeIsDone) {
  // asynchronous: gather runs beside compute, 10 ms; inline: it is issued after, 10 + 4
  for (const bool computes_inline : {false, true}) {
    Case c;
    c.op(Lane::compute, on(Resource::matrix, 10.0_ms));
    c.op(Lane::all_gather, on(Resource::scale_up, 4.0_ms));
    EXPECT_EQ(ms(c.run(computes_inline).end), computes_inline ? 14 : 10);
  }
}

TEST(Simulate, TheHostWaitsAndIssuesNothingMeanwhile) {
  Case c;
  const OpId exchange = c.op(Lane::expert, on(Resource::scale_up, 5.0_ms));
  c.op(Lane::host, {}, {exchange});
  c.op(Lane::compute, on(Resource::matrix, 1.0_ms));
  const Timeline timeline = c.run();
  EXPECT_EQ(ms(timeline.events[2].start), 5);
}

TEST(Simulate, ASectionRepeatsFromItsEnd) {
  Case c;
  c.op(Lane::compute, on(Resource::matrix, 2.0_ms));
  c.repeat(3);
  const Timeline timeline = c.run();
  EXPECT_EQ(ms(timeline.end), 6);
  EXPECT_EQ(timeline.events.size(), 6u);
  EXPECT_EQ(timeline.events[4].repeat, 2);
  EXPECT_EQ(ms(timeline.events[4].start), 4);
}

TEST(Simulate, AnOpAtFullSpeedEndsAtItsQuantizedDurationExactly) {
  Case c;
  c.op(Lane::compute, on(Resource::matrix, Seconds(1.2345678949e-3)));
  EXPECT_EQ((c.run().events[0].end - Instant{}).count(), 1'234'568);
}

}  // namespace
}  // namespace xt
