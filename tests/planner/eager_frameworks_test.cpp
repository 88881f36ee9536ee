// What frameworks keep and send by their own rules: activations of two kernels, weights in
// fp32 under autocast, norms that are computed again.

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "planner/validate/validate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t tokens = 8192;

Plan plan_with(const Flags& more) {
  return test::plan_of(test::with({{"model", "qwen3_8b"},
                                   {"machine", "h100_sxm"},
                                   {"devices", "16"},
                                   {"pack_length", std::to_string(tokens)},
                                   {"loss_chunk", "none"},
                                   {"recompute", "none"}},
                                  more));
}

double sent(const Plan& plan, Kernel kernel) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel == kernel && work.group == Group::shard)
      bytes += static_cast<double>(work.extents[0].code * width(work.dtype));
  }
  return bytes / static_cast<double>(count_parameters(graph, 1));
}

// The root once and layers twice, of 8.2 G parameters; gradients once.
TEST(Autocast, WeightsAreGatheredInFp32AndGradientsReducedInIt) {
  const Plan narrow = plan_with({{"engine", "fsdp1"}, {"reduce_dtype", "bf16"}});
  const Plan wide = plan_with({{"engine", "fsdp1_autocast"}});
  EXPECT_NEAR(sent(wide, Kernel::all_gather) / sent(narrow, Kernel::all_gather), 2, 1e-9);
  EXPECT_NEAR(sent(wide, Kernel::reduce_scatter), 4, 1e-2);
}

// What is gathered in fp32 stays beside its cast until a layer is through.
TEST(Autocast, WhatIsGatheredTakesThreeTimesTheBytes) {
  const auto largest = [](const char* engine) {
    const Plan plan = plan_with({{"engine", engine}, {"recompute", "all"}});
    const Estimate answer = estimate(plan);
    return static_cast<double>(
        answer.timeline.device_memory
            .by_category[static_cast<std::size_t>(MemoryCategory::gathered_parameters)]
            .value);
  };
  EXPECT_GT(largest("fsdp1_autocast"), 2 * largest("fsdp1"));
}

// Bytes that kernels of three micro-steps' losses pass beside products.
double bytes_of_loss(const Flags& more) {
  const Plan plan = plan_with(test::with({{"gradient_accumulation", "3"}}, more));
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  double bytes = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
      if (op.origin.phase == Phase::loss &&
          kernel_class(schedule.work(op).kernel) == KernelClass::memory_bound)
        bytes += section.repeat * static_cast<double>(memory_traffic(schedule.work(op), {}).value);
    }
  return bytes;
}

constexpr double vocabulary = 151936;

// Two cross-entropies a micro-step: logits are widened, and read and written in fp32. What the
// model put out is kept until then.
TEST(Composer, MetricsPassOverLogitsOfEachMicroStepOnceMore) {
  constexpr double bytes_each = 2 + 4 + 4 + 4;
  EXPECT_NEAR((bytes_of_loss({{"engine", "composer"}}) - bytes_of_loss({{"engine", "fsdp1"}})) /
                  (tokens * vocabulary),
              3 * 2 * bytes_each, 1e-9);
}

// No backward pass reads the output of a layer's last product, which fsdp1 does not compute again.
//
// Source: PyTorch 2.0, torch/utils/checkpoint.py, which has no early stop
TEST(Composer, AllOfALayerRunsAgain) {
  const auto products = [](const char* engine, Phase phase) {
    const Plan plan = plan_with({{"engine", engine}, {"recompute", "all"}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    const auto count = std::ranges::count_if(schedule.ops, [&](const Op& op) {
      return op.origin.phase == phase && schedule.work(op).kernel == Kernel::matmul;
    });
    return count / plan.architecture.num_hidden_layers;
  };
  EXPECT_EQ(products("composer", Phase::recompute), products("composer", Phase::forward));
  EXPECT_EQ(products("fsdp1", Phase::recompute), products("fsdp1", Phase::forward) - 1);
}

// One product makes queries, keys and values, and one each their gradients, of outputs that are
// copied together; where they are three, two sums of gradients of their input are kernels too.
TEST(Projections, AreOneProductWhereFrameworksJoinThem) {
  const auto works = [](const Flags& more, Kernel kernel, std::string_view part) {
    const Plan plan = plan_with(more);
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    std::vector<std::array<std::int64_t, 3>> extents;
    for (const Op& op : schedule.ops)
      if (const Work& work = schedule.work(op);
          op.origin.layer == 0 && work.kernel == kernel && schedule.parts[op.origin.part] == part)
        extents.push_back({work.extents[0].code, work.extents[1].code, work.extents[2].code});
    return extents;
  };
  const std::vector<std::array<std::int64_t, 3>> joined = {{tokens, 4096 + 2 * 1024, 4096}};
  const Flags megatron = {{"engine", "megatron"}};
  for (const Kernel kernel :
       {Kernel::matmul, Kernel::matmul_input_backward, Kernel::matmul_weight_backward_add}) {
    EXPECT_EQ(works(megatron, kernel, "q_proj"), joined);
    EXPECT_EQ(works(megatron, kernel, "k_proj").size(), 0U);
  }
  EXPECT_EQ(works(megatron, Kernel::cast, "q_proj").size(), 1U);
  const Flags eager = {{"engine", "torchtitan"}, {"compile", "false"}};
  const Flags compiled = {{"engine", "torchtitan"}, {"compile", "true"}};
  EXPECT_EQ(works(eager, Kernel::matmul, "v_proj").size(), 1U);
  EXPECT_EQ(works(eager, Kernel::cast, "v_proj").size(), 1U);
  EXPECT_EQ(works(compiled, Kernel::cast, "v_proj").size(), 0U);
  EXPECT_EQ(works(compiled, Kernel::matmul_input_backward_add, "v_proj").size(), 1U);
}

// Bytes of 16-bit input x of a backward pass per element of it: dy to its product with the weight
// 2 + 2, that with x·rstd for the weight's gradient 6 and its sum 2, to fp32 2 + 4; times x and
// summed 12 + 4, times rstd 4 + 4; the mean's written out 4, x to the first 8, twice that 8, the
// product of both 12; both ways added 12, to 16 bits 4 + 2.
//
// Source: PyTorch, torch/csrc/autograd/FunctionsManual.cpp, mean_backward and pow_backward
TEST(Eager, BackwardPassesOfNormsAreTheKernelsOfTheirFormula) {
  const Plan plan = plan_with({{"engine", "torchtitan"}, {"compile", "false"}});
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const bool is_of_norm = op.origin.phase == Phase::backward && op.origin.layer == 0 &&
                            schedule.parts[op.origin.part] == "input_norm";
    if (is_of_norm) bytes += static_cast<double>(memory_traffic(schedule.work(op), {}).value);
  }
  constexpr double elements = tokens * 4096;
  EXPECT_EQ(bytes / elements, 4 + 6 + 2 + 6 + 16 + 8 + 4 + 8 + 8 + 12 + 12 + 6);
}

// Transposed are queries, keys and values, 4096 and twice 1024 columns, and what attention makes of
// them; queries and keys are multiplied by the angles twice, swapped and added, which is nine
// tensors. The activation is two kernels, and sums of gradients that three and two products have
// for their input are three.
//
// Source: MindFormers, models/llama/llama_transformer.py and llama_layer.py
TEST(MindFormers, LayersRunOpByOpWithHeadsBeforeTokens) {
  const Plan plan =
      plan_with({{"engine", "mindformers"}, {"machine", "ascend_910b"}, {"model", "llama3_1_8b"}});
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  double passes = 0, sums = 0;
  std::int64_t multiplications = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    const std::string_view part = schedule.parts[op.origin.part];
    if (op.origin.layer != 0) continue;
    if (work.kernel == Kernel::multiply) ++multiplications;
    if (work.kernel != Kernel::cast) continue;
    const double bytes = static_cast<double>(memory_traffic(work, {}).value);
    if (part == "rope" || part == "attention") passes += bytes;
    if (part.ends_with("_proj")) sums += bytes;
  }
  constexpr double query = tokens * 4096 * 2, key = tokens * 1024 * 2;
  EXPECT_EQ(passes, 2 * (9 * (query + key) + 2 * (query + 2 * key + query)));
  EXPECT_EQ(sums, 3 * 3 * query);
  EXPECT_EQ(multiplications, 3);
}

// Logits are widened once more, then read or written eight times for the entropy and once for the
// likeliest token; where Liger has the loss there are none.
TEST(Trl, EntropyAndAccuracyPassOverWholeLogits) {
  const auto more = [](const Flags& flags) {
    return (bytes_of_loss(test::with(flags, {{"engine", "trl"}})) -
            bytes_of_loss(test::with(flags, {{"engine", "accelerate"}}))) /
           (tokens * vocabulary);
  };
  EXPECT_NEAR(more({}), 3 * (2 + 4 + 8 * 4 + 4), 1e-9);
  EXPECT_EQ(more({{"compile_loss", "true"}, {"loss_chunk", "1024"}}), 0);
}

// The host reads both before it issues the backward pass, once a micro-step.
TEST(Trl, TheHostWaitsForWhatItLogs) {
  const auto waits = [](const char* engine) {
    const Plan plan = plan_with({{"engine", engine}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    return std::ranges::count_if(schedule.ops, [&](const Op& op) {
      return op.origin.phase == Phase::loss && schedule.work(op).kernel == Kernel::wait;
    });
  };
  EXPECT_EQ(waits("trl"), 1);
  EXPECT_EQ(waits("accelerate"), 0);
}

// Each norm of a layer reads and writes fp32, between two conversions of as many numbers.
TEST(InternEvo, NormsAreInFp32BetweenConversions) {
  const auto converted = [](const char* dtype) {
    const Plan plan = plan_with({{"engine", "internevo"}, {"compute_dtype", dtype}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    std::int64_t norms = 0, conversions = 0;
    for (const Op& op : schedule.ops) {
      if (op.origin.phase != Phase::forward || op.origin.layer < 0) continue;
      const Work& work = schedule.work(op);
      if (work.kernel == Kernel::cast) ++conversions;
      if (work.kernel != Kernel::rms_norm) continue;
      EXPECT_EQ(work.dtype, DType::fp32);
      ++norms;
    }
    EXPECT_EQ(norms, 4 * plan.architecture.num_hidden_layers);  // two are of queries and keys
    return static_cast<double>(conversions) / static_cast<double>(norms);
  };
  EXPECT_EQ(converted("bf16"), 2);
  EXPECT_EQ(converted("fp16"), 2);
}

double saved(const Flags& more) {
  return static_cast<double>(
      estimate(plan_with(more))
          .timeline.device_memory
          .by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)]
          .value);
}

// silu(gate) is kept beside gate, up and their product, in every layer.
TEST(Nanotron, AnActivationOfTwoKernelsKeepsOneMoreTensorALayer) {
  const Plan plan = plan_with({{"engine", "nanotron"}});
  const double layers = static_cast<double>(plan.architecture.num_hidden_layers);
  const double one = 2.0 * tokens * static_cast<double>(plan.architecture.intermediate_size);
  EXPECT_NEAR(saved({{"engine", "nanotron"}}) - saved({{"engine", "mindspeed"}}), layers * one,
              4 * one);
}

// Keys and values are copied for the kernel that turns them, and what they were copied from lies in
// one tensor with the queries where there are as many heads of each.
TEST(Nanotron, KeysAndValuesAreThereTwiceWhereTheirHeadsAreAsManyAsQueries) {
  const auto further = [](const char* model, std::int64_t width_of_keys) {
    const Flags flags = {{"model", model}};
    const Plan plan = plan_with(test::with(flags, {{"engine", "nanotron"}}));
    const double layers = static_cast<double>(plan.architecture.num_hidden_layers);
    const double activation = static_cast<double>(plan.architecture.intermediate_size);
    const double one = layers * 2 * tokens;
    const double both = saved(test::with(flags, {{"engine", "nanotron"}})) -
                        saved(test::with(flags, {{"engine", "mindspeed"}}));
    return (both / one - activation) / static_cast<double>(width_of_keys);
  };
  EXPECT_NEAR(further("olmo3_7b", 4096), 2, 0.5);
  EXPECT_NEAR(further("qwen3_8b", 1024), 0, 0.5);
}

std::int64_t ops_of_layers(const Schedule& schedule, bool (*counts)(const Work& work)) {
  return std::ranges::count_if(schedule.ops, [&](const Op& op) {
    return op.origin.phase != Phase::loss && counts(schedule.work(op));
  });
}

// Ranks have a part of each sample, so that with several, what is gathered is in another order.
TEST(Torchtitan, TokensOfSeveralSamplesAreCopiedBesideEachExchange) {
  const auto schedule_of = [](const char* sample_length) {
    const Plan plan = plan_with(
        {{"engine", "torchtitan"}, {"tensor_parallel", "8"}, {"sample_length", sample_length}});
    return lower(graph_of(plan), plan.strategy);
  };
  const auto is_copy = [](const Work& work) { return work.kernel == Kernel::cast; };
  const auto is_exchange = [](const Work& work) {
    return work.group == Group::tensor &&
           (work.kernel == Kernel::all_gather || work.kernel == Kernel::reduce_scatter);
  };
  const Schedule one = schedule_of("8192"), two = schedule_of("4096");
  EXPECT_GT(ops_of_layers(one, is_exchange), 100);
  EXPECT_EQ(ops_of_layers(two, is_copy) - ops_of_layers(one, is_copy),
            ops_of_layers(two, is_exchange));
}

// Of 8.2 G parameters over 4 ranks, an update needs three sub-groups of 1 G; over 16 one.
TEST(DeepSpeed, GradientsAreWidenedASubGroupAtATime) {
  const auto widens_behind_an_update = [](const char* devices) {
    const Plan plan = plan_with({{"engine", "deepspeed"}, {"zero", "3"}, {"devices", devices}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    std::size_t first_update = schedule.ops.size(), last_widened = 0;
    for (std::size_t i = schedule.ops.size(); i-- > 0;)
      if (schedule.work(schedule.ops[i]).kernel == Kernel::adamw) first_update = i;
    for (const Buffer& buffer : schedule.buffers)
      if (buffer.kind == BufferKind::transient && buffer.category == MemoryCategory::gradients &&
          buffer.dtype == DType::fp32)
        last_widened = std::max(last_widened, at(buffer.first_op));
    return last_widened > first_update;
  };
  EXPECT_TRUE(widens_behind_an_update("4"));
  EXPECT_FALSE(widens_behind_an_update("16"));
}

const std::filesystem::path published = std::filesystem::path(XT_DATA_ROOT) / "tests" / "published";

Strategy strategy_of(const std::string& id) {
  const std::vector<std::filesystem::path> paths = {published / "published.json"};
  const std::vector<PublishedRow> rows = read_published(paths);
  const PublishedRow row = *std::ranges::find(rows, id, &PublishedRow::id);
  return plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT})).plan.value().strategy;
}

TEST(RowPlan, InternEvoComputesNormsAgainWhereItKeepsLayers) {
  const Strategy keeps = strategy_of("internevo-31bdbaaf"),
                 drops = strategy_of("internevo-329351a6");
  EXPECT_EQ(keeps.recompute_layers, 32);
  EXPECT_EQ(keeps.recompute_ops.text(), "layer_norms");
  EXPECT_TRUE(drops.recompute_ops.is_all());
}

TEST(RowPlan, AtorchRunsUnderAutocast) {
  EXPECT_EQ(strategy_of("atorch-1ff7481f").engine, "fsdp1_autocast");
}

}  // namespace
}  // namespace xt
