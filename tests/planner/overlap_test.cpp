// Steps in which no exchange overlaps anything: they do the same, and all traffic is exposed.

#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

const Flags alone = {{"communication_overlap", "false"}};
const Flags tensor = {{"tensor_parallel", "4"}};
const Flags executed = {{"engine", "xt_run"}, {"model", "qwen3_8b"}};

Estimate estimate_of(const Flags& more) {
  return estimate(test::plan_of(test::with({{"model", "mpt_7b"},
                                            {"machine", "h100_sxm"},
                                            {"devices", "8"},
                                            {"engine", "megatron"},
                                            {"recompute", "none"},
                                            {"pack_length", "2048"},
                                            {"gradient_accumulation", "3"}},
                                           more)));
}

struct Times {
  double total = 0, exposed = 0;
};

Times traffic_of(const Estimate& answer) {
  Times sum;
  for (const TrafficTime& time : answer.account.traffic) {
    sum.total += time.total.value;
    sum.exposed += time.exposed.value;
  }
  return sum;
}

TEST(CommunicationOverlap, WithoutItAllTrafficIsExposed) {
  for (const Flags& layout : {Flags{}, tensor, Flags{{"zero", "0"}}, executed}) {
    const Estimate answer = estimate_of(test::with(layout, alone));
    const Times traffic = traffic_of(answer);
    EXPECT_GT(traffic.total, 0);
    EXPECT_DOUBLE_EQ(traffic.exposed, traffic.total);
    EXPECT_LT(traffic_of(estimate_of(layout)).exposed, 0.8 * traffic.exposed);
  }
}

// So a step is its compute, its traffic and the thread that issues them, one after the other.
TEST(CommunicationOverlap, WithoutItAStepIsTheSumOfItsParts) {
  const Estimate answer = estimate_of(test::with(tensor, alone));
  const double sum =
      answer.account.compute.value + traffic_of(answer).total + answer.account.idle.value;
  EXPECT_NEAR(answer.account.step.value / sum, 1, 1e-6);
}

// Bytes of messages of a step, and its flops.
std::pair<double, double> work_of(const Schedule& schedule) {
  double bytes = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Work& work = schedule.work(schedule.ops[i]);
      if (kernel_class(work.kernel) == KernelClass::collective)
        bytes += static_cast<double>(section.repeat * work.extents[0].code * width(work.dtype));
    }
  return {bytes, model_flops(schedule, assumed_bindings(schedule)).value};
}

TEST(CommunicationOverlap, DoesNotChangeWhatAStepDoesAndKeeps) {
  for (const Flags& layout : {Flags{}, tensor}) {
    const Estimate with = estimate_of(layout), without = estimate_of(test::with(layout, alone));
    EXPECT_EQ(work_of(with.schedule), work_of(without.schedule));
    EXPECT_EQ(with.timeline.device_memory.peak, without.timeline.device_memory.peak);
  }
}

// Gradients are reduced when all are summed, so no stage waits for another one's reduction.
TEST(CommunicationOverlap, WithoutItGradientsAreReducedAtTheEnd) {
  const Estimate answer = estimate_of(alone);
  for (const Op& op : answer.schedule.ops) {
    if (answer.schedule.work(op).kernel != Kernel::reduce_scatter) continue;
    EXPECT_EQ(op.origin.phase, Phase::reduce);
  }
}

// Of two stages. Of many, each slows the last pass of all by what it reduces beside it, which may
// come to more than what all reduce at once at the end.
TEST(CommunicationOverlap, WithoutItPipelinesTakeLonger) {
  const auto step = [](const Flags& more) {
    const Flags two = test::with(more, {{"pipeline_parallel", "2"}});
    return estimate(test::plan_in_stages(two)).account.step.value;
  };
  EXPECT_GT(step(alone), step({}));
}

}  // namespace
}  // namespace xt
