// Layers of stages and of their chunks as a user gives them: what follows them, and what does not
// depend on who cut.
//
// Source: Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/sim/pipeline.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/pipeline.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::plan_in_stages;

PipelineSchedule pipeline_of(const Flags& flags) {
  const Plan plan = plan_in_stages(flags);
  return lower_pipeline(graph_of(plan), plan.strategy);
}

TEST(PipelineLayers, AnEvenCutByHandIsTheEnginesOwn) {
  EXPECT_EQ(pipeline_of({{"pipeline_layers", "8,8,8,8"}}), pipeline_of({}));
  const Flags interleaved = {{"virtual_stages", "2"}};
  EXPECT_EQ(pipeline_of(test::with(interleaved, {{"pipeline_layers", "4,4,4,4,4,4,4,4"}})),
            pipeline_of(interleaved));
}

// 94 layers in 96 parts: embedding and loss count as a layer each.
TEST(PipelineLayers, BareEndsByHandAreThoseOfEndsThatCountAsLayers) {
  const Flags flags = {{"model", "qwen3_235b_a22b"},
                       {"pipeline_parallel", "16"},
                       {"virtual_stages", "6"},
                       {"gradient_accumulation", "16"}};
  std::string layers = "0";
  for (int part = 1; part < 95; ++part) layers += ",1";
  EXPECT_EQ(pipeline_of(test::with(flags, {{"pipeline_layers", layers + ",0"}})),
            pipeline_of(flags));
}

std::vector<std::int64_t> layers_of(const Estimate& answer) {
  std::vector<std::int64_t> layers;
  for (const StageAnswer& stage : answer.pipeline->stages) layers.push_back(stage.layers);
  return layers;
}

TEST(PipelineLayers, AreOfStagesInTurnWhereChunksAreInterleaved) {
  const Estimate answer =
      estimate(plan_in_stages({{"virtual_stages", "2"}, {"pipeline_layers", "1,2,3,4,5,6,7,4"}}));
  EXPECT_THAT(layers_of(answer), testing::ElementsAre(6, 8, 10, 8));
}

TEST(PipelineLayers, TimeAndMemoryOfAStageFollowItsLayers) {
  const Estimate even = estimate(plan_in_stages({}));
  const Estimate cut = estimate(plan_in_stages({{"pipeline_layers", "4,12,12,4"}}));
  EXPECT_THAT(layers_of(cut), testing::ElementsAre(4, 12, 12, 4));
  for (std::size_t i = 0; i < 4; ++i) {
    const StageAnswer &before = even.pipeline->stages[i], &now = cut.pipeline->stages[i];
    EXPECT_EQ(now.peak > before.peak, now.layers > before.layers) << i;
    EXPECT_EQ(now.busy > before.busy, now.layers > before.layers) << i;
  }
  EXPECT_NEAR(cut.model_flops / even.model_flops, 1, 1e-12);
  EXPECT_GT(cut.account.step, even.account.step);
}

// What the last stage does beside its layers is what a layer less makes up for.
TEST(PipelineLayers, ALayerLessBesideTheLossIsFaster) {
  const Flags flags = {{"gradient_accumulation", "32"}};
  const Estimate even = estimate(plan_in_stages(flags));
  const Estimate cut =
      estimate(plan_in_stages(test::with(flags, {{"pipeline_layers", "9,8,8,7"}})));
  EXPECT_LT(cut.pipeline->stages[3].busy, even.pipeline->stages[3].busy);
  EXPECT_LT(cut.pipeline->stages[0].peak.value, even.pipeline->stages[0].peak.value * 9 / 8);
}

TEST(PipelineLayers, EmbeddingAndLossMayStandAlone) {
  const Estimate answer = estimate(plan_in_stages({{"pipeline_layers", "0,16,16,0"}}));
  const std::vector<StageAnswer>& stages = answer.pipeline->stages;
  EXPECT_THAT(layers_of(answer), testing::ElementsAre(0, 16, 16, 0));
  EXPECT_LT(stages[0].busy, stages[3].busy);
  EXPECT_LT(stages[3].busy, stages[1].busy);
}

// Stages that take so long forward and twice as long back, of one chunk.
PipelineSchedule uneven(std::size_t stages, std::int32_t micro_batches) {
  PipelineSchedule pipeline;
  pipeline.micro_batches = micro_batches;
  for (std::size_t i = 0; i < stages; ++i) {
    Stage& stage = pipeline.distinct.emplace_back();
    stage.chunks.push_back({1, 1, 2, 2});
    stage.schedule.sections.resize(4);
    pipeline.stages.push_back(static_cast<std::uint16_t>(i));
  }
  pipeline.orders = one_forward_one_backward(static_cast<std::int32_t>(stages), 1, micro_batches);
  return pipeline;
}

std::int64_t step_of(const std::vector<std::int64_t>& stages, std::int32_t micro_batches) {
  const PipelineSchedule pipeline = uneven(stages.size(), micro_batches);
  const auto computing = [](std::int64_t ns) {
    return SectionTime{Duration(ns), Duration(ns), Duration(0)};
  };
  PipelineTimes times;
  for (const std::int64_t ns : stages)
    times.sections.push_back({computing(0), computing(ns), computing(2 * ns), computing(0)});
  times.transfers.assign(stages.size(), Duration(0));
  return (simulate(pipeline, times).end - Instant{}).count();
}

// A stage as slow as three passes of the others, or slower, waits for those before it, which fill
// before its first micro-batch and drain behind its last one, and for nobody else.
TEST(PipelineLayers, AStepIsTheSlowestStagesMicroBatchesAndTheFillBeforeIt) {
  constexpr std::int64_t others = 4;
  for (const std::int64_t slow : {12, 20})
    for (const std::int64_t stages : {2, 4, 5})
      for (std::int64_t place = 0; place < stages; ++place)
        for (const std::int64_t micro_batches : {stages, 4 * stages}) {
          std::vector<std::int64_t> all(static_cast<std::size_t>(stages), others);
          all[static_cast<std::size_t>(place)] = slow;
          EXPECT_EQ(step_of(all, static_cast<std::int32_t>(micro_batches)),
                    3 * slow * micro_batches + 3 * others * place)
              << testing::PrintToString(all) << " " << micro_batches;
        }
}

// Of two stages the first one also waits for its first gradient.
TEST(PipelineLayers, TwoStagesTakeTheSlowerOnesMicroBatchesAndOneOfTheOther) {
  for (const std::vector<std::int64_t>& stages : {std::vector<std::int64_t>{7, 7}, {5, 9}, {4, 20}})
    for (const std::int32_t micro_batches : {1, 4, 16})
      EXPECT_EQ(step_of(stages, micro_batches), 3 * (stages[0] + micro_batches * stages[1]));
}

std::string refusal_of(const Flags& flags) {
  return test::refusal_by([&] { plan_in_stages(flags); });
}

TEST(PipelineLayers, AreRefusedAtTheFlagWhereTheyCannotBe) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal_of({{"pipeline_layers", "8,8,8"}}),
              HasSubstr("--pipeline-layers: error: 3 numbers of layers for 4 stages"));
  EXPECT_THAT(refusal_of({{"pipeline_layers", "32"}}), HasSubstr("a list"));
  EXPECT_THAT(refusal_of({{"pipeline_layers", "8,8,,16"}}), HasSubstr("a list"));
}

}  // namespace
}  // namespace xt
