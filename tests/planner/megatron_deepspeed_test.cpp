// Megatron-DeepSpeed without ZeRO: what it sends between stages, and when it reduces gradients.
//
// Source: DeepSpeed, runtime/pipe/engine.py and runtime/engine.py

#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "planner/lower/pipeline.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

constexpr std::int64_t h = 4096, s = 2048;  // of MPT-7B

Plan plan_with(const test::Flags& more) {
  return test::plan_of(test::with({{"model", "mpt_7b"},
                                   {"machine", "a100_80g_sxm"},
                                   {"devices", "8"},
                                   {"engine", "megatron_deepspeed"},
                                   {"gradient_accumulation", "2"},
                                   {"pack_length", std::to_string(s)}},
                                  more));
}

int exchanges(const Schedule& schedule, Kernel kernel, Group group, Phase phase) {
  int found = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    found += work.kernel == kernel && work.group == group && op.origin.phase == phase ? 1 : 0;
  }
  return found;
}

TEST(MegatronDeepSpeed, AllGradientsAreSummedOnceNothingIsLeftToCompute) {
  const Plan plan = plan_with({});
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  EXPECT_EQ(exchanges(schedule, Kernel::all_reduce, Group::shard, Phase::backward), 0);
  std::int64_t elements = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel != Kernel::all_reduce || work.group != Group::shard) continue;
    EXPECT_EQ(op.origin.phase, Phase::reduce);
    EXPECT_EQ(width(work.dtype), 2);
    elements += work.extents[0].code;
  }
  EXPECT_NEAR(
      static_cast<double>(elements) / static_cast<double>(count_parameters(graph_of(plan), 1)), 1,
      1e-5);
}

// A rank sends its part of the activations; the receiver gathers them from its tensor parallel
// ranks, before a backward pass also those that it had sent.
TEST(MegatronDeepSpeed, TensorParallelRanksSendAPartEach) {
  const test::Flags layout = {
      {"tensor_parallel", "4"}, {"tensor_sequence_parallel", "false"}, {"pipeline_parallel", "2"}};
  const auto pipeline_of = [&](const test::Flags& more) {
    const Plan plan = plan_with(test::with(layout, more));
    return lower_pipeline(graph_of(plan), plan.strategy);
  };
  const PipelineSchedule parts = pipeline_of({});
  const PipelineSchedule wholes = pipeline_of({{"engine", "megatron"}});
  EXPECT_EQ(parts.transfer.extents[0], Extent(s * h / 4));
  EXPECT_EQ(wholes.transfer.extents[0], Extent(s * h));
  const auto gathers = [](const PipelineSchedule& pipeline, std::size_t place, Phase phase) {
    return exchanges(pipeline.stage(place).schedule, Kernel::all_gather, Group::tensor, phase);
  };
  // Each chunk is there for a first and for another micro-batch.
  EXPECT_EQ(gathers(parts, 1, Phase::forward), 2);
  EXPECT_EQ(gathers(parts, 0, Phase::backward), 2 * 2);
  EXPECT_EQ(gathers(wholes, 1, Phase::forward), 0);
}

}  // namespace
}  // namespace xt
