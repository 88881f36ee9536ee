// Engines of further frameworks: what they keep, send and add beside those that they resemble, and
// which published rows are theirs.

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "planner/lower/pipeline.h"
#include "planner/validate/model_config.h"
#include "planner/validate/row_notes.h"
#include "planner/validate/validate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// Bytes of all messages of `kernel` over `group` in one step, by parameter of the model.
double sent(const Plan& plan, Kernel kernel, Group group) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  double bytes = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Work& work = schedule.work(schedule.ops[i]);
      if (work.kernel == kernel && work.group == group && work.extents[0].code > 2)
        bytes += static_cast<double>(section.repeat * work.extents[0].code * width(work.dtype));
    }
  return bytes / static_cast<double>(count_parameters(graph, 1));
}

double resident(const Plan& plan, MemoryCategory category) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::resident && buffer.category == category)
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return static_cast<double>(bytes) / static_cast<double>(count_parameters(graph, 1));
}

// Gradients in 16 bits are summed over all 16 ranks, weights sent among those that share state.
TEST(InternEvo, FewerRanksMaySplitOptimizerStateThanSumGradients) {
  const Flags engine = {{"engine", "internevo"}, {"gradient_accumulation", "3"}};
  const Plan all = test::plan_on_16_h100(engine),
             some = test::plan_on_16_h100(test::with(engine, {{"shard_ranks", "8"}}));
  EXPECT_NEAR(resident(all, MemoryCategory::optimizer), 12.0 / 16, 1e-3);
  EXPECT_NEAR(resident(some, MemoryCategory::optimizer), 12.0 / 8, 1e-3);
  EXPECT_NEAR(resident(some, MemoryCategory::gradients), 2, 1e-3);
  EXPECT_NEAR(sent(all, Kernel::all_reduce, Group::shard), 2, 2e-3);
  EXPECT_NEAR(sent(some, Kernel::all_reduce, Group::world), 2, 2e-3);
  EXPECT_NEAR(sent(some, Kernel::broadcast, Group::shard), 2, 2e-3);
  EXPECT_EQ(sent(some, Kernel::all_gather, Group::shard), 0);
  EXPECT_EQ(some.strategy.replicas(), 2);
}

// 16-bit shards beside three numbers in fp32, of 16 ranks; at the update, a wide gradient and two
// roots of every parameter are there at once.
TEST(InternEvo, OnFsdpAnUpdateHasThreeMoreNumbersOfEveryParameter) {
  const Plan plan = test::plan_on_16_h100({{"engine", "internevo_fsdp"}});
  EXPECT_NEAR(resident(plan, MemoryCategory::parameters), 2.0 / 16, 1e-3);
  EXPECT_NEAR(resident(plan, MemoryCategory::optimizer), 12.0 / 16, 1e-3);
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  const MemoryPeak peak =
      memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::optimizer);
  const auto of = [&](MemoryCategory category) {
    const Bytes bytes = peak.by_category[static_cast<std::size_t>(category)];
    return static_cast<double>(bytes.value) / static_cast<double>(count_parameters(graph, 1));
  };
  EXPECT_NEAR(of(MemoryCategory::workspace), 8.0 / 16, 1e-3);
  EXPECT_NEAR(of(MemoryCategory::gradients), 4.0 / 16, 1e-3);
}

// Gradients go to the host once. 16-bit weights come back once, or, where they wait there, before
// each gather: forward and backward, but the embedding once.
TEST(DeepSpeed, OffloadMovesGradientsOutAndWeightsIn) {
  const Flags state = {{"engine", "deepspeed"}, {"offload_optimizer", "true"}};
  const Plan plain = test::plan_on_16_h100({{"engine", "deepspeed"}}),
             some = test::plan_on_16_h100(state),
             all = test::plan_on_16_h100(test::with(state, {{"offload_parameters", "true"}}));
  EXPECT_EQ(sent(plain, Kernel::copy_to_host, Group::none), 0);
  EXPECT_NEAR(sent(some, Kernel::copy_to_host, Group::none), 2.0 / 16, 1e-3);
  EXPECT_NEAR(sent(some, Kernel::copy_to_device, Group::none), 2.0 / 16, 1e-3);
  EXPECT_NEAR(sent(all, Kernel::copy_to_host, Group::none), 2.0 / 16, 1e-3);
  EXPECT_NEAR(sent(all, Kernel::copy_to_device, Group::none),
              sent(all, Kernel::all_gather, Group::shard) / 16, 1e-3);
  EXPECT_GT(sent(all, Kernel::copy_to_device, Group::none), 3.0 / 16);
}

// Each parameter is put together from the parts that ranks sent; Colossal-AI gathers into place.
TEST(DeepSpeed, WhatIsGatheredIsCopiedOut) {
  const auto copied = [](const Flags& flags) {
    const Plan plan = test::plan_on_16_h100(flags);
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    std::int64_t gathered = 0, copies = 0;
    for (const Op& op : schedule.ops) {
      const Work& work = schedule.work(op);
      if (work.kernel == Kernel::all_gather) gathered += work.extents[0].code;
      if (work.kernel == Kernel::cast && op.origin.phase != Phase::optimizer &&
          schedule.parts[op.origin.part] == "copy_out")
        copies += work.extents[0].code;
    }
    return static_cast<double>(copies) / static_cast<double>(gathered);
  };
  EXPECT_NEAR(copied({{"engine", "deepspeed"}, {"zero", "3"}}), 1, 1e-3);
  EXPECT_EQ(copied({{"engine", "deepspeed"}, {"zero", "2"}}), 0);
  EXPECT_EQ(copied({{"engine", "colossalai"}}), 0);
}

std::size_t ops_of(const Schedule& schedule, Kernel kernel) {
  return static_cast<std::size_t>(std::ranges::count_if(
      schedule.ops, [&](const Op& op) { return schedule.work(op).kernel == kernel; }));
}

// A sum in fp32 is as large as Megatron's, but each gradient is made before it is added.
TEST(MindSpeed, GradientsAreAddedBehindTheirProducts) {
  const auto schedule_of = [](const char* engine) {
    const Plan plan = test::plan_on_16_h100({{"engine", engine}});
    return lower(graph_of(plan), plan.strategy);
  };
  const Schedule megatron = schedule_of("megatron"), mindspeed = schedule_of("mindspeed");
  const std::size_t fused = ops_of(megatron, Kernel::matmul_weight_backward_add);
  EXPECT_GT(fused, 100u);
  EXPECT_GE(ops_of(mindspeed, Kernel::add), ops_of(megatron, Kernel::add) + fused - 1);
  EXPECT_LE(ops_of(mindspeed, Kernel::matmul_weight_backward_add), 1u);  // that of lm_head
  const Plan plan = test::plan_on_16_h100({{"engine", "mindspeed"}});
  EXPECT_NEAR(resident(plan, MemoryCategory::gradients), 4, 1e-3);
}

// As Transformer Engine's grouped linear layer is given the sums of its experts.
TEST(Megatron, ProductsOfExpertsAddToTheirGradients) {
  const auto schedule_of = [](const char* engine) {
    const Plan plan = test::plan_on_16_h100({{"engine", engine},
                                             {"model", "qwen3_30b_a3b"},
                                             {"expert_parallel", "8"},
                                             {"gradient_accumulation", "2"}});
    return lower(graph_of(plan), plan.strategy);
  };
  const Schedule megatron = schedule_of("megatron"), mindspeed = schedule_of("mindspeed");
  const std::size_t fused = ops_of(megatron, Kernel::grouped_matmul_weight_backward_add);
  EXPECT_GT(fused, 90u);
  EXPECT_EQ(ops_of(megatron, Kernel::grouped_matmul_weight_backward), 0u);
  EXPECT_EQ(ops_of(mindspeed, Kernel::grouped_matmul_weight_backward_add), 0u);
  EXPECT_GE(ops_of(mindspeed, Kernel::add), ops_of(megatron, Kernel::add) + fused);
}

TEST(Nanotron, WeightsAreGatheredAfterTheUpdate) {
  const auto gathers_after_update = [](const char* engine) {
    const Plan plan = test::plan_on_16_h100({{"engine", engine}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    return std::ranges::any_of(schedule.ops, [&](const Op& op) {
      return op.origin.phase == Phase::optimizer && schedule.work(op).kernel == Kernel::all_gather;
    });
  };
  EXPECT_TRUE(gathers_after_update("nanotron"));
  EXPECT_FALSE(gathers_after_update("mindspeed"));
}

// One stream has one pool, so that what is held is what is allocated.
TEST(SimpleFsdp, CollectivesTakeMemoryOfTheGraphsOwnStream) {
  const auto pooled = [](const char* engine) {
    const Plan plan = test::plan_on_16_h100({{"engine", engine}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    return std::ranges::any_of(schedule.buffers,
                               [](const Buffer& buffer) { return buffer.pool != Lane::compute; });
  };
  EXPECT_TRUE(pooled("torchtitan"));
  EXPECT_FALSE(pooled("simple_fsdp"));
}

// Bytes a parameter of a stage that `kernel` moves over its ranks in a whole step, whichever
// section runs how often.
double sent_by_stage(const PipelineSchedule& pipeline, std::size_t place, Kernel kernel) {
  const Stage& stage = pipeline.stage(place);
  const std::vector<std::int32_t> runs =
      section_runs(stage, pipeline.orders[place], pipeline.micro_batches);
  double bytes = 0, elements = 0;
  for (std::size_t s = 0; s < runs.size(); ++s)
    for (std::size_t i = at(stage.schedule.sections[s].begin);
         i < at(stage.schedule.sections[s].end); ++i) {
      const Work& work = stage.schedule.work(stage.schedule.ops[i]);
      if (work.kernel == kernel && work.group == Group::shard)
        bytes += static_cast<double>(runs[s] * work.extents[0].code * width(work.dtype));
    }
  for (const Flat& flat : stage.schedule.flats) elements += static_cast<double>(flat.elements);
  return bytes / elements;
}

// A stage of FSDP2 gathers in 16 bits and reduces in 32 once a step, however many micro-batches.
TEST(Pipeline, AStageOfFsdpGathersAndReducesOnceAStep) {
  for (const char* micro_batches : {"4", "8"})
    for (const char* chunks : {"1", "2"}) {
      const Plan plan = test::plan_on_16_h100({{"engine", "torchtitan"},
                                               {"pipeline_parallel", "4"},
                                               {"virtual_stages", chunks},
                                               {"gradient_accumulation", micro_batches}});
      const PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
      for (std::size_t place = 0; place < 4; ++place) {
        EXPECT_NEAR(sent_by_stage(pipeline, place, Kernel::all_gather), 2, 1e-9) << place;
        EXPECT_NEAR(sent_by_stage(pipeline, place, Kernel::reduce_scatter), 4, 1e-9) << place;
      }
    }
}

// No gradient of a chunk is reduced before the last one is computed.
TEST(Pipeline, AStageOfFsdpReducesBehindTheWholeOfAChunk) {
  const Plan plan = test::plan_on_16_h100(
      {{"engine", "torchtitan"}, {"pipeline_parallel", "4"}, {"gradient_accumulation", "4"}});
  const Schedule schedule = lower_pipeline(graph_of(plan), plan.strategy).stage(1).schedule;
  std::size_t last_product = 0, first_reduction = schedule.ops.size();
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Work& work = schedule.work(schedule.ops[i]);
    if (work.kernel == Kernel::matmul_weight_backward) last_product = i;
    if (work.kernel == Kernel::reduce_scatter) first_reduction = std::min(first_reduction, i);
  }
  EXPECT_GT(first_reduction, last_product);
}

std::string problems_of(const Flags& more) {
  try {
    test::plan_on_16_h100(more);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Pipeline, WhatAStageOfFsdpHasNoAnswerToIsRefused) {
  const Flags stages = {{"engine", "torchtitan"}, {"pipeline_parallel", "4"}};
  EXPECT_EQ(problems_of(stages), "");
  for (const auto& [field, value] : Flags{{"reshard_after_forward", "true"},
                                          {"shard_ranks", "2"},
                                          {"fp8_products", "true"},
                                          {"loss_chunk", "auto"}})
    EXPECT_NE(problems_of(test::with(stages, {{field, value}})), "") << field;
}

// Bytes of transient buffers of a kind, by parameter of the model.
template <typename Matches>
double transient(const Plan& plan, Matches matches) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::transient && matches(buffer))
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return static_cast<double>(bytes) / static_cast<double>(count_parameters(graph, 1));
}

TEST(DeepSpeed, WeightsOfStageThreeAreGatheredInAPoolOfTheirOwn) {
  const auto apart = [](const Plan& plan) {
    return transient(plan, [](const Buffer& buffer) { return buffer.pool == Lane::all_gather; });
  };
  EXPECT_GT(apart(test::plan_on_16_h100({{"engine", "deepspeed"}, {"zero", "3"}})), 2);
  EXPECT_EQ(apart(test::plan_on_16_h100({{"engine", "colossalai"}, {"zero", "2"}})), 0);
}

// Two roots of fp32 second moments, of a shard of the 16 ranks.
TEST(InternEvo, RootsOfAllSecondMomentsAreThereAtOnce) {
  const Plan plan = test::plan_on_16_h100({{"engine", "internevo"}});
  const double roots = transient(plan, [](const Buffer& buffer) {
    return buffer.category == MemoryCategory::workspace && buffer.dtype == DType::fp32;
  });
  EXPECT_NEAR(roots, 2 * 4.0 / 16, 1e-3);
}

std::vector<std::int64_t> layers_by_stage(const char* stages) {
  const Plan plan = test::plan_on_16_h100(
      {{"engine", "nanotron"}, {"pipeline_parallel", stages}, {"gradient_accumulation", "8"}});
  const PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    layers.push_back(pipeline.stage(i).layers);
  return layers;
}

// lm_head multiplies as many weights as 3.2 of the 36 layers: a stage is left once it has more than
// its share of 39.2.
TEST(Nanotron, StagesMultiplyEqually) {
  EXPECT_EQ(layers_by_stage("2"), (std::vector<std::int64_t>{20, 16}));
  EXPECT_EQ(layers_by_stage("4"), (std::vector<std::int64_t>{10, 10, 10, 6}));
}

TEST(Nanotron, AStageWithoutALayerIsRefused) {
  const Flags stages = {{"engine", "nanotron"}, {"devices", "36"}, {"pipeline_parallel", "36"}};
  EXPECT_NE(problems_of(stages).find("without a layer"), std::string::npos);
}

const std::filesystem::path published = std::filesystem::path(XT_DATA_ROOT) / "tests" / "published";

PublishedRow row_named(const std::string& id) {
  const std::vector<std::filesystem::path> paths = {published / "published.json"};
  const std::vector<PublishedRow> rows = read_published(paths);
  return *std::ranges::find(rows, id, &PublishedRow::id);
}

Strategy strategy_of(const std::string& id) {
  const PublishedRow row = row_named(id);
  const RowPlan plan = plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT}));
  EXPECT_EQ(plan.reason + plan.detail, "");
  return plan.plan.value().strategy;
}

TEST(RowPlan, HeadsOfMegatronsGptShareKeysAndValuesAsTheRowSays) {
  const PublishedRow row = row_named("mcore-ci-7678fd5e");
  const ModelConfig config = model_config(row.model, row.seq_len, false);
  EXPECT_EQ(config.architecture.num_attention_heads, 32);
  EXPECT_EQ(config.architecture.num_key_value_heads, 8);
}

TEST(RowPlan, TheGraphTrainersDefaultPolicyDropsProductsOfExpertsAlone) {
  const RecomputeOps ops = strategy_of("torchtitan-dsv3-35719975").recompute_ops;
  EXPECT_TRUE(ops.has(RecomputeOp::expert_products));
  EXPECT_FALSE(ops.has(RecomputeOp::experts) || ops.has(RecomputeOp::products));
}

TEST(RowPlan, EnginesAreChosenByFamilyAndName) {
  EXPECT_EQ(strategy_of("modellink-9b940838").engine, "mindspeed");
  EXPECT_EQ(strategy_of("mindformers-94edbe08").engine, "mindformers");
  EXPECT_EQ(strategy_of("nanotron-8e13ab1a").engine, "nanotron");
  EXPECT_EQ(strategy_of("internevo-31bdbaaf").engine, "internevo");
  EXPECT_EQ(strategy_of("internevo-mem-c58d92f1").engine, "internevo_fsdp");
  EXPECT_EQ(strategy_of("torchtitan-pr-8511faab").engine, "simple_fsdp");
}

TEST(RowPlan, TablesOfNanotronAreThoseOfTheFirstStage) {
  EXPECT_TRUE(is_of_first_stage(row_named("nanotron-82c97717")));
  EXPECT_FALSE(is_of_last_stage(row_named("nanotron-82c97717")));
  EXPECT_FALSE(is_of_first_stage(row_named("nanotron-8f9687a9")));
}

TEST(RowPlan, LigersKernelsAreFused) {
  EXPECT_TRUE(strategy_of("trl-dense-2793d24c").is_compiled);
  EXPECT_FALSE(strategy_of("trl-dense-885e25c1").is_compiled);
}

TEST(RowPlan, WhatRecipesOfFrameworksFixIsRead) {
  EXPECT_EQ(strategy_of("trl-dense-2793d24c").engine, "accelerate");
  EXPECT_EQ(strategy_of("trl-dense-885e25c1").engine, "trl");
  EXPECT_EQ(strategy_of("mindspeed-fsdp2-e9fa39fe").engine, "mindspeed_fsdp");
  EXPECT_FALSE(strategy_of("flagperf-d59e2194").memory_efficient_linear);
  EXPECT_TRUE(strategy_of("mle-h200-97efd2db").memory_efficient_linear);
  EXPECT_TRUE(strategy_of("torchtitan-h200-4538d7d7").compiles_loss);
  EXPECT_FALSE(strategy_of("torchtitan-2412-2e4c8750").compiles_loss);
}

TEST(RowPlan, StateOnTheHostIsRead) {
  const Strategy some = strategy_of("mle-h200-97efd2db"), all = strategy_of("alst-9ac87d2a");
  EXPECT_TRUE(some.offloads_optimizer && all.offloads_optimizer);
  EXPECT_FALSE(some.offloads_parameters);
  EXPECT_TRUE(all.offloads_parameters);
}

TEST(RowPlan, LayersRunAgainAreCountedByChunk) {
  EXPECT_EQ(strategy_of("mindspeed-ci-c9ef218e").recompute_layers, 8);
  EXPECT_EQ(strategy_of("mindspeed-ci-851bdacd").recompute_ops.text(), "activations");
  EXPECT_EQ(strategy_of("maxtext-5e6c7611").recompute_ops.text(), "norms+ffn");
}

TEST(RowPlan, RanksThatShareOptimizerStateAreRead) {
  EXPECT_EQ(strategy_of("internevo-233ed52e").shard_ranks, 8);
  EXPECT_EQ(strategy_of("internevo-80b577e8").shard_ranks, 0);
}

TEST(RowPlan, AStageOfFsdpIsAPipelinesStage) {
  const Strategy s = strategy_of("torchtitan-dsv3-43da587e");
  EXPECT_EQ(s.pipeline_parallel, 8);
  EXPECT_EQ(s.virtual_stages, 2);
  EXPECT_EQ(s.gradient_accumulation, 16);
  EXPECT_EQ(s.dispatch, Dispatch::deep_ep);
}

// Sixteen dies are eight packages of two ranks each, and a die has half of a package's tokens.
TEST(RowPlan, ARowThatCountsDiesIsAskedForInPackages) {
  const PublishedRow row = row_named("mindspeed-llm26-683f7065");
  const Plan plan = plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT})).plan.value();
  EXPECT_EQ(row.devices, 16);
  EXPECT_EQ(plan.devices, 8);
  EXPECT_EQ(plan.strategy.ranks, 16);
  EXPECT_DOUBLE_EQ(2 * predict(row, plan).tokens_per_device_s, predict(plan).tokens_per_device_s);
}

TEST(RowPlan, LossChunksThatACompilerUndoesAreNone) {
  const Strategy chunked = strategy_of("torchtitan-dsv3-e5431dae");
  EXPECT_EQ(chunked.loss_chunk, chunked.loss_tokens() / 8);
  const Strategy whole = strategy_of("torchtitan-dsv3-eb3df239");
  EXPECT_EQ(whole.loss_chunk, whole.loss_tokens());
}

TEST(RowPlan, TrlChunksTheLossByTokens) {
  EXPECT_EQ(strategy_of("trl-moe-422efd12").loss_chunk, 256);
}

}  // namespace
}  // namespace xt
