// Backward passes in two halves: when each runs, how much shorter stages wait, what is kept
// between.
//
// Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241; PyTorch,
// distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/sim/pipeline.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/pipeline.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using Runs = std::vector<ChunkRun>;

ChunkRun forward(std::int32_t chunk, std::int32_t micro_batch) { return {chunk, micro_batch}; }
ChunkRun inputs(std::int32_t chunk, std::int32_t micro_batch) { return {chunk, micro_batch, true}; }
ChunkRun weights(std::int32_t chunk, std::int32_t micro_batch) {
  return {chunk, micro_batch, true, false, true};
}

// What PyTorch's schedule of two ranks with two stages each does with two micro-batches.
TEST(ZeroBubble, FindsGradientsOfWeightsAsManyPassesLaterAsThereAreStagesBefore) {
  const std::vector<Runs> expected = {
      {forward(0, 0), forward(0, 1), forward(1, 0), forward(1, 1), inputs(1, 0), weights(1, 0),
       inputs(1, 1), weights(1, 1), inputs(0, 0), weights(0, 0), inputs(0, 1), weights(0, 1)},
      {forward(0, 0), forward(0, 1), forward(1, 0), inputs(1, 0), forward(1, 1), inputs(1, 1),
       weights(1, 0), inputs(0, 0), weights(1, 1), inputs(0, 1), weights(0, 0), weights(0, 1)}};
  EXPECT_EQ(zero_bubble(2, 2, 2), expected);
}

// Equal stages whose chunks take as long in each of the three passes.
std::int64_t step_of(bool splits, std::int32_t p, std::int32_t v, std::int32_t m) {
  constexpr std::int64_t pass = 1'000;
  PipelineSchedule pipeline;
  pipeline.micro_batches = m;
  pipeline.orders = splits ? zero_bubble(p, v, m) : one_forward_one_backward(p, v, m);
  pipeline.stages.assign(static_cast<std::size_t>(p), 0);
  Stage& stage = pipeline.distinct.emplace_back();
  stage.schedule.sections.resize(5);
  for (std::int32_t c = 0; c < v; ++c) stage.chunks.push_back({1, 1, 2, 2, false, 3, 3});
  PipelineTimes times;
  times.sections.emplace_back();
  for (const std::int64_t passes : {0, 1, splits ? 1 : 2, 1, 0}) {
    const Duration time(passes * pass);
    times.sections.back().push_back({time, time, Duration(0)});
  }
  times.transfers.assign(pipeline.stages.size(), Duration(0));
  return (simulate(pipeline, times).end - Instant{}).count() - 3 * v * m * pass;
}

// Where all three take as long, a stage waits for one pass a stage before it, not for three.
TEST(ZeroBubble, LeavesAThirdOfTheBubble) {
  for (const std::int32_t p : {2, 4, 8})
    for (const std::int32_t v : {2, 3}) {
      EXPECT_EQ(step_of(false, p, v, 4 * p), 3'000 * (p - 1)) << p << " " << v;
      EXPECT_EQ(step_of(true, p, v, 4 * p), 1'000 * (p - 1)) << p << " " << v;
    }
}

Plan plan_of(const Flags& more) {
  const Flags flags = {
      {"model", "llama3_1_8b"}, {"machine", "h100_sxm"},         {"devices", "8"},
      {"engine", "torchtitan"}, {"recompute", "none"},           {"pack_length", "4096"},
      {"compile", "false"},     {"gradient_accumulation", "16"}, {"pipeline_parallel", "4"},
      {"virtual_stages", "2"},  {"loss_chunk", "none"}};
  return test::plan_of(test::with(flags, more));
}

const Flags split = {{"pipeline_schedule", "zero_bubble"}};

TEST(ZeroBubble, DoesTheSameWorkAndWaitsLess) {
  const Estimate whole = estimate(plan_of({})), halves = estimate(plan_of(split));
  EXPECT_NEAR(halves.model_flops / whole.model_flops, 1, 1e-12);
  EXPECT_NEAR(halves.hardware_flops / whole.hardware_flops, 1, 1e-12);
  EXPECT_LT(halves.pipeline->bubble, whole.pipeline->bubble);
  EXPECT_LT(halves.account.step, whole.account.step);
}

// The last stage finds its weights' gradients three passes later, logits' gradients among them.
TEST(ZeroBubble, KeepsWhatWeightsNeedUntilTheyAreFound) {
  const Plan plan = plan_of(split);
  const Estimate whole = estimate(plan_of({})), halves = estimate(plan);
  const std::int64_t logits = plan.architecture.vocab_size * 4096 * 2;
  const std::size_t last = 3;
  EXPECT_GT(halves.pipeline->stages[last].peak.value - whole.pipeline->stages[last].peak.value,
            2 * logits);
}

std::string refusal_of(const Flags& flags) {
  return test::refusal_by([&] { plan_of(test::with(split, flags)); });
}

TEST(ZeroBubble, IsRefusedWhereBackwardPassesAreWhole) {
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_THAT(refusal_of({{"compile", "true"}}), HasSubstr("compiled has its backward pass whole"));
  EXPECT_THAT(refusal_of({{"recompute", "all"}}), HasSubstr("computed again for two halves"));
  EXPECT_THAT(refusal_of({{"virtual_stages", "1"}}), HasSubstr("stages of several chunks"));
  EXPECT_THAT(refusal_of({{"pipeline_parallel", "1"}, {"virtual_stages", "1"}}),
              HasSubstr("one stage waits for no other"));
  EXPECT_THAT(refusal_of({{"engine", "megatron"}}),
              HasSubstr("megatron runs backward passes whole"));
}

}  // namespace
}  // namespace xt
