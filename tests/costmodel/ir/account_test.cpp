#include <gtest/gtest.h>

#include <array>

#include "costmodel/ir/account.h"
#include "costmodel/ir/schedule_builder.h"

namespace xt {
namespace {

// compute [0, 10) and [20, 30), gather [5, 25): it runs 20 and is exposed while compute rests, 10.
TEST(Account, TrafficIsExposedWhileNoComputeRuns) {
  ScheduleBuilder build("test", 2);
  const Origin origin{Phase::forward, build.part("part"), -1, -1};
  const auto op = [&](Kernel kernel, Lane lane) {
    Work work;
    work.kernel = kernel;
    const BufferId out = build.transient({{1, 1, 1}});
    const std::array<BufferId, 1> outputs{out};
    return build.add({work, lane, origin, {}, outputs, {}, {}});
  };
  const OpId first = op(Kernel::add, Lane::compute);
  const OpId gather = op(Kernel::all_gather, Lane::all_gather);
  const OpId second = op(Kernel::add, Lane::compute);
  build.end_section(1, origin);
  const Schedule schedule = std::move(build).finish();
  const auto ms = [](std::int64_t n) { return Instant(std::chrono::milliseconds(n)); };
  Timeline timeline;
  timeline.events = {
      {first, 0, ms(0), ms(10)}, {gather, 0, ms(5), ms(25)}, {second, 0, ms(20), ms(30)}};
  timeline.end = ms(34);
  const StepAccount sum = account(schedule, timeline);
  const TrafficTime& time = sum.traffic[static_cast<std::size_t>(Traffic::all_gather)];
  EXPECT_DOUBLE_EQ(time.total.value, 0.020);
  EXPECT_DOUBLE_EQ(time.exposed.value, 0.010);
  EXPECT_DOUBLE_EQ(time.overlapped_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(sum.compute.value, 0.020);
  EXPECT_DOUBLE_EQ(sum.idle.value, 0.004);
  EXPECT_DOUBLE_EQ(sum.step.value, 0.034);
}

TEST(Account, WithoutTrafficEverythingIsOverlapped) {
  EXPECT_DOUBLE_EQ(TrafficTime{}.overlapped_ratio(), 1.0);
}

}  // namespace
}  // namespace xt
