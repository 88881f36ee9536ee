// Stages of a pipeline: how long they wait for each other, what they keep meanwhile, and what they
// send.
//
// Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
// arXiv 2104.04473, section 2.2

#include "costmodel/sim/pipeline.h"

#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "planner/lower/pipeline.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::plan_in_stages;

// Equal stages without anything inside, of so many chunks.
PipelineSchedule bare(std::int32_t stages, std::int32_t chunks, std::int32_t micro_batches) {
  PipelineSchedule pipeline;
  pipeline.micro_batches = micro_batches;
  Stage& stage = pipeline.distinct.emplace_back();
  for (std::int32_t c = 0; c < chunks; ++c) stage.chunks.push_back({1, 1, 2, 2});
  stage.schedule.sections.resize(4);
  pipeline.stages.assign(static_cast<std::size_t>(stages), 0);
  pipeline.orders = one_forward_one_backward(stages, chunks, micro_batches);
  return pipeline;
}

constexpr std::int64_t forward = 12'000, backward = 24'000;  // ns of a stage, all its chunks

// A section that computes so long and leaves nothing in the background.
SectionTime computing(std::int64_t ns) { return {Duration(ns), Duration(ns), Duration(0)}; }

PipelineTimes times_of(const PipelineSchedule& pipeline, std::int64_t transfer = 0) {
  const auto chunks = static_cast<std::int64_t>(pipeline.distinct.front().chunks.size());
  PipelineTimes times;
  times.sections = {
      {computing(0), computing(forward / chunks), computing(backward / chunks), computing(0)}};
  times.transfers.assign(pipeline.stages.size(), Duration(transfer));
  return times;
}

std::int64_t step_of(const PipelineSchedule& pipeline, std::int64_t transfer = 0) {
  return (simulate(pipeline, times_of(pipeline, transfer)).end - Instant{}).count();
}

// The bubble is (p - 1) / m of the rest, and v times less where chunks are interleaved.
TEST(Pipeline, StagesWaitAsLongAsTheClosedFormsSay) {
  for (const std::int32_t p : {2, 4, 8})
    for (const std::int32_t v : {1, 2, 3})
      for (const std::int32_t m : {p, 3 * p}) {
        const std::int64_t ideal = m * (forward + backward);
        EXPECT_EQ(step_of(bare(p, v, m)), ideal + (p - 1) * (forward + backward) / v)
            << p << " " << v << " " << m;
      }
}

// With a single micro-batch nothing overlaps: every transfer but the last stage's is waited for.
TEST(Pipeline, OneMicroBatchWaitsForEveryTransfer) {
  for (const std::int32_t p : {2, 4})
    EXPECT_EQ(step_of(bare(p, 1, 1), 500), p * (forward + backward) + 2 * (p - 1) * 500);
}

// What reductions take beyond their chunk delays no other chunk, only the end of the step.
TEST(Pipeline, ReductionsBehindTheLastBackwardPassesDelayTheUpdateAlone) {
  PipelineSchedule pipeline = bare(4, 2, 8);
  const std::int64_t before = step_of(pipeline);
  PipelineTimes times = times_of(pipeline);
  times.sections[0].insert(times.sections[0].begin() + 3, times.sections[0][2]);
  pipeline.distinct[0].schedule.sections.resize(5);
  for (ChunkSections& chunk : pipeline.distinct[0].chunks) chunk.last_backward = 3;
  SectionTime& last = times.sections[0][3];
  last.drained = last.computed + Duration(500);
  last.in_background = Duration(4'000);
  const PipelineTimeline timeline = simulate(pipeline, times);
  EXPECT_EQ((timeline.end - Instant{}).count(), before + 500);
  for (const Duration tail : timeline.tails) EXPECT_EQ(tail, Duration(500));
}

std::int64_t most_in_flight(const std::vector<ChunkRun>& order) {
  std::int64_t in_flight = 0, most = 0;
  for (const ChunkRun& run : order) {
    in_flight += run.is_backward ? -1 : 1;
    most = std::max(most, in_flight);
  }
  return most;
}

// Interleaved, Megatron's first stage warms up with 2·(p - 1) + (v - 1)·p chunks.
TEST(Pipeline, AStageKeepsAsManyMicroBatchesAsItNeedsToStayBusy) {
  for (const std::int32_t p : {2, 4, 8})
    for (const std::int32_t m : {1, p, 3 * p}) {
      const auto orders = one_forward_one_backward(p, 1, m);
      for (std::int32_t i = 0; i < p; ++i)
        EXPECT_EQ(most_in_flight(orders[static_cast<std::size_t>(i)]), std::min(m, p - i));
      if (m < 3 * p) continue;
      const auto interleaved = one_forward_one_backward(p, 2, m);
      for (std::int32_t i = 0; i < p; ++i)
        EXPECT_EQ(most_in_flight(interleaved[static_cast<std::size_t>(i)]),
                  2 * (p - i - 1) + p + 1);
    }
}

// A layer keeps what it does without a pipeline, see tensor_parallel_test; a stage beside that what
// it received... which is the input of its first layer, and so a layer's own.
TEST(Pipeline, EveryMicroBatchInFlightKeepsTheActivationsOfItsLayers) {
  constexpr std::int64_t s = 2048, h = 4096, heads = 32, layers = 8;
  constexpr std::int64_t of_layer = s * (32 * h + 2 * 2 * 4 + 4 * heads);
  const Estimate answer = estimate(plan_in_stages({}));
  const std::vector<StageAnswer>& stages = answer.pipeline->stages;
  EXPECT_EQ((stages[1].peak - stages[2].peak).value, layers * of_layer);
}

TEST(Pipeline, FlopsOfARankAreThoseOfTheModelOverAllRanks) {
  const Estimate flat =
      estimate(plan_in_stages({{"pipeline_parallel", "1"}, {"gradient_accumulation", "2"}}));
  for (const Flags& more : {Flags{}, Flags{{"virtual_stages", "2"}}, Flags{{"zero", "0"}}}) {
    const Estimate answer = estimate(plan_in_stages(more));
    EXPECT_NEAR(answer.model_flops / flat.model_flops, 1, 1e-12);
    EXPECT_NEAR(answer.hardware_flops / flat.hardware_flops, 1, 1e-12);
    EXPECT_EQ(plan_in_stages(more).strategy.tokens_per_step(), 2 * 16 * 2048);
  }
}

TEST(Pipeline, ComputeTrafficAndIdleAddUpToTheStep) {
  for (const char* chunks : {"1", "4"}) {
    const Estimate answer = estimate(plan_in_stages({{"virtual_stages", chunks}}));
    double phases = 0;
    for (const Seconds phase : answer.account.phases) phases += phase.value;
    EXPECT_NEAR(phases, answer.account.compute.value, 1e-9);
    EXPECT_LE(answer.account.compute + answer.account.idle, answer.account.step);
    for (const StageAnswer& stage : answer.pipeline->stages) {
      EXPECT_GE(stage.idle.value, 0);
      EXPECT_NEAR((stage.busy + stage.idle) / answer.account.step, 1, 1e-12);
    }
  }
}

TEST(Pipeline, ALongerBatchAndInterleavedChunksShrinkTheBubble) {
  const auto bubble = [](const Flags& more) {
    const Estimate answer = estimate(plan_in_stages(more));
    return answer.pipeline->bubble / answer.account.step;
  };
  EXPECT_LT(bubble({{"gradient_accumulation", "32"}}), bubble({}));
  EXPECT_LT(bubble({{"virtual_stages", "2"}}), bubble({}));
}

TEST(Pipeline, AnswersSayWhichStageIsTheFullestAndHowLongStagesWait) {
  const Plan plan = plan_in_stages({});
  const Estimate answer = estimate(plan);
  ASSERT_EQ(answer.pipeline->stages.size(), 4u);
  for (const StageAnswer& stage : answer.pipeline->stages)
    EXPECT_LE(stage.peak, answer.timeline.device_memory.peak);
  EXPECT_EQ(answer.pipeline->stages[answer.pipeline->fullest].peak,
            answer.timeline.device_memory.peak);
  const std::string json = estimate_json(plan, answer).pretty();
  for (const char* key : {"\"pipeline_parallel\": 4", "\"bubble_s\"", "\"fullest_stage\""})
    EXPECT_NE(json.find(key), std::string::npos) << key;
  const std::string text = estimate_text(plan, answer, Style(false));
  EXPECT_NE(text.find("stages wait ~"), std::string::npos) << text;
  EXPECT_NE(text.find("the peak is at stage "), std::string::npos) << text;
}

TEST(Pipeline, OneStageIsNoPipeline) {
  const Estimate one = estimate(plan_in_stages({{"pipeline_parallel", "1"}}));
  EXPECT_FALSE(one.pipeline);
  const Plan plan = plan_in_stages({{"pipeline_parallel", "1"}});
  EXPECT_EQ(one.schedule, lower(graph_of(plan), plan.strategy));
}

// Sixteen ranks: stages of four lie two on a node of eight.
TEST(Pipeline, TransfersBetweenNodesUseTheNetwork) {
  const Plan plan = plan_in_stages({});
  const std::vector<Duration> times =
      transfer_times(lower_pipeline(graph_of(plan), plan.strategy), plan.profile);
  EXPECT_EQ(times[0], times[2]);
  EXPECT_GT(times[1], times[0]);
}

TEST(Pipeline, StagesInTheMiddleShareOneSchedule) {
  const Plan plan = plan_in_stages({});
  const PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
  EXPECT_EQ(pipeline.distinct.size(), 3u);
  EXPECT_EQ(pipeline.stages, (std::vector<std::uint16_t>{0, 1, 1, 2}));
}

// GPT-2 and its like: the first and the last stage sum the gradients of one weight.
TEST(Pipeline, ATiedEmbeddingIsSummedBetweenTheFirstAndTheLastStage) {
  const Plan plan = plan_in_stages({{"model", "qwen3_4b"}, {"pipeline_parallel", "2"}});
  ASSERT_TRUE(plan.architecture.tie_word_embeddings);
  const PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
  for (std::size_t place = 0; place < 2; ++place) {
    const Schedule& schedule = pipeline.stage(place).schedule;
    EXPECT_EQ(schedule.group(Group::embedding), (GroupShape{2, 8}));
    std::int64_t elements = 0;
    for (const Op& op : schedule.ops)
      if (schedule.work(op).group == Group::embedding)
        elements += schedule.work(op).extents[0].code;
    EXPECT_EQ(elements, plan.architecture.vocab_size * plan.architecture.hidden_size);
  }
}

// Source: Megatron-LM, account_for_embedding_in_pipeline_split and the same for the loss
TEST(Pipeline, EmbeddingAndHeadCountAsLayersWhereLayersThenDivide) {
  const Plan plan = plan_in_stages({{"model", "qwen3_235b_a22b"},
                                    {"pipeline_parallel", "16"},
                                    {"virtual_stages", "6"},
                                    {"gradient_accumulation", "16"}});
  const PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
  EXPECT_EQ(pipeline.stage(0).layers, 5);
  EXPECT_EQ(pipeline.stage(1).layers, 6);
  EXPECT_EQ(pipeline.stage(15).layers, 5);
}

}  // namespace
}  // namespace xt
