// Products in fp8 by Transformer Engine's recipes, and exchanges in pieces beside products.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// MPT-7B: a GPT without biases and dropout.
constexpr std::int64_t layers = 32, h = 4096, heads = 32, s = 2048;
constexpr std::int64_t products = layers * 12 * h * h;  // weights of linear layers

Plan plan_of(const Flags& more) {
  const Flags flags = {{"model", "mpt_7b"},    {"machine", "h100_sxm"}, {"devices", "8"},
                       {"engine", "megatron"}, {"recompute", "none"},   {"pack_length", "2048"}};
  return test::plan_of(test::with(flags, more));
}

Estimate estimate_of(const Flags& more) { return estimate(plan_of(more)); }

Flags fp8(const std::string& recipe, const Flags& more = {}) {
  return test::with({{"fp8_products", "true"}, {"fp8_recipe", recipe}}, more);
}

constexpr std::array<std::string_view, 3> recipes = {"delayed", "tensorwise", "blockwise"};

bool is_product(const Work& work) {
  const KernelClass of = kernel_class(work.kernel);
  return of == KernelClass::matrix || of == KernelClass::grouped_matrix;
}

TEST(TransformerEngine, ProductsAreInFp8ButThoseOfRouterAndHead) {
  for (const std::string_view recipe : recipes)
    for (const std::string_view model : {"mpt_7b", "qwen3_30b_a3b"}) {
      const Schedule schedule = estimate_of(fp8(std::string(recipe), {{"model", std::string(model)},
                                                                      {"tensor_parallel", "2"}}))
                                    .schedule;
      for (const Op& op : schedule.ops) {
        if (!is_product(schedule.work(op))) continue;
        const std::string& part = schedule.parts[op.origin.part];
        const bool stays = part == "router" || part == "lm_head";
        EXPECT_EQ(schedule.work(op).dtype, stays ? DType::bf16 : DType::fp8) << part;
      }
    }
}

// Of 32 bytes for each of a layer's token and width, the inputs of two linear layers behind norms
// become 1 of 2 and that of the last 4 of 8; attention's backward pass still reads its output in
// bf16, beside which the copy for the weight's gradient takes 1.
TEST(TransformerEngine, KeepsInputsOfLinearLayersInOneByte) {
  for (const std::string_view recipe : recipes)
    for (const std::int64_t t : {1, 4}) {
      const Schedule schedule =
          estimate_of(fp8(std::string(recipe), {{"tensor_parallel", std::to_string(t)}})).schedule;
      const MemoryPeak peak =
          memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss);
      const auto kept = static_cast<double>(
          peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value);
      const std::int64_t of_layer = s * (27 * h + 2 * 2 * 4 + 4 * heads);
      const auto all = static_cast<double>((layers * of_layer + 2 * s * h) / t);
      EXPECT_NEAR(kept / all, 1, 1e-9) << recipe << " " << t;
    }
}

// Bytes that `kernel` moves over `group` in layer 1.
std::int64_t bytes_over(const Schedule& schedule, Kernel kernel, Group group, Phase phase) {
  std::int64_t bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel == kernel && work.group == group && op.origin.layer == 1 &&
        op.origin.phase == phase)
      bytes += work.extents[0].code * width(work.dtype);
  }
  return bytes;
}

TEST(TransformerEngine, TensorRanksGatherOneByteAndScatterTwo) {
  for (const std::string_view recipe : recipes) {
    const Schedule schedule =
        estimate_of(fp8(std::string(recipe), {{"tensor_parallel", "4"}})).schedule;
    const auto bytes = [&](Kernel kernel, Phase phase) {
      return bytes_over(schedule, kernel, Group::tensor, phase);
    };
    EXPECT_EQ(bytes(Kernel::all_gather, Phase::forward), 2 * s * h);
    EXPECT_EQ(bytes(Kernel::all_gather, Phase::backward), 4 * s * h);
    EXPECT_EQ(bytes(Kernel::reduce_scatter, Phase::forward), 2 * 2 * s * h);
    EXPECT_EQ(bytes(Kernel::reduce_scatter, Phase::backward), 2 * 2 * s * h);
  }
}

// Kernels that passes of a layer's experts, or of a part of them, are issued as in `phase`, passes
// of one kernel apart.
std::vector<std::int64_t> calls_of_experts(const Schedule& schedule, Phase phase,
                                           std::string_view of = "experts.") {
  std::vector<std::int64_t> calls;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    const bool is_of_experts = schedule.parts[op.origin.part].starts_with(of);
    if (work.kernel == Kernel::cast && is_of_experts && op.origin.layer == 1 &&
        op.origin.phase == phase && work.extents[2] != Extent{})
      calls.push_back(work.extents[2].code);
  }
  return calls;
}

Schedule routed(const std::string& recipe, const Flags& more = {}) {
  const Flags experts = {{"model", "qwen3_30b_a3b"}, {"expert_parallel", "8"}};
  return estimate_of(fp8(recipe, test::with(experts, more))).schedule;
}

// 16 experts a rank; a scale takes three kernels, the two copies of an operand one.
TEST(TransformerEngine, QuantisesRowsExpertByExpert) {
  const std::vector<std::int64_t> both_operands = {48, 16, 48, 16};
  EXPECT_EQ(calls_of_experts(routed("tensorwise"), Phase::forward), both_operands);
  EXPECT_EQ(calls_of_experts(routed("tensorwise"), Phase::backward), both_operands);
  EXPECT_THAT(calls_of_experts(routed("blockwise"), Phase::forward), testing::ElementsAre(16, 16));
}

TEST(TransformerEngine, QuantisesRowsOfAllExpertsAtOnceUnderDelayedScaling) {
  EXPECT_THAT(calls_of_experts(routed("delayed"), Phase::forward), testing::IsEmpty());
  EXPECT_THAT(calls_of_experts(routed("delayed"), Phase::backward), testing::IsEmpty());
}

// Passes that read and write rows of layer 1's experts in 16 bits.
std::int64_t passes_over_rows(const Schedule& schedule, Phase phase) {
  std::int64_t passes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    const bool is_of_experts = schedule.parts[op.origin.part].starts_with("experts.");
    passes += work.kernel == Kernel::cast && is_of_experts && op.origin.layer == 1 &&
              op.origin.phase == phase && work.extents[1] == Extent(2 * 2 * 2048) &&
              schedule.buffers[at(schedule.outputs(op)[0])].dtype == DType::bf16;
  }
  return passes;
}

TEST(TransformerEngine, RowsArePaddedWhereNoExchangeOfCopiesDid) {
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ(passes_over_rows(routed("delayed"), phase), 2);
    EXPECT_EQ(passes_over_rows(routed("delayed", {{"dispatch", "deep_ep"}}), phase), 0);
  }
}

// Passes of each expert add the last bias times weights; MindSpeed's product adds it.
TEST(TransformerEngine, BiasesOfExpertsAreAddedExpertByExpert) {
  const auto calls = [](const char* engine, Phase phase) {
    const Flags flags = {{"model", "gpt_oss_20b"},
                         {"expert_parallel", "4"},
                         {"engine", engine},
                         {"pack_length", "4096"}};
    return calls_of_experts(estimate_of(flags).schedule, phase, "experts.down");
  };
  EXPECT_THAT(calls("megatron", Phase::forward), testing::ElementsAre(16));
  EXPECT_THAT(calls("megatron", Phase::backward), testing::ElementsAre(8, 32));
  EXPECT_THAT(calls("mindspeed", Phase::forward), testing::IsEmpty());
}

// Of each row's 2 · F numbers one pass clamps and one joins the halves; backwards 12 bytes for each
// of F say what was within, 10 choose and 8 join.
TEST(TransformerEngine, ActivationsOfExpertsAreClampedByKernelsOfTheirOwn) {
  const auto bytes_a_row = [](const char* engine, Phase phase) {
    const Schedule schedule = estimate_of({{"model", "gpt_oss_20b"},
                                           {"expert_parallel", "4"},
                                           {"engine", engine},
                                           {"pack_length", "4096"}})
                                  .schedule;
    std::vector<std::int64_t> bytes;
    for (const Op& op : schedule.ops)
      if (op.origin.layer == 1 && op.origin.phase == phase &&
          schedule.parts[op.origin.part] == "experts.activation" &&
          schedule.work(op).kernel == Kernel::cast)
        bytes.push_back(schedule.work(op).extents[1].code);
    return bytes;
  };
  constexpr std::int64_t F = 2880;
  EXPECT_THAT(bytes_a_row("megatron", Phase::forward), testing::ElementsAre(8 * F, 8 * F));
  EXPECT_THAT(bytes_a_row("megatron", Phase::backward),
              testing::ElementsAre(12 * F, 10 * F, 8 * F));
  EXPECT_THAT(bytes_a_row("mindspeed", Phase::forward), testing::IsEmpty());
}

// The offset of the activation is copied to the device each time that it runs.
TEST(TransformerEngine, TheHostWaitsForTheOffsetOfAClampedActivationAsOftenAsItRuns) {
  const auto waits = [](const char* engine, const char* model, Phase phase) {
    const Schedule schedule = estimate_of({{"model", model},
                                           {"expert_parallel", "4"},
                                           {"engine", engine},
                                           {"recompute", "all"},
                                           {"recompute_ops", "activations"},
                                           {"pack_length", "4096"}})
                                  .schedule;
    return std::ranges::count_if(schedule.ops, [&](const Op& op) {
      return schedule.work(op).kernel == Kernel::wait && op.origin.layer == 1 &&
             op.origin.phase == phase;
    });
  };
  for (const Phase phase : {Phase::forward, Phase::recompute}) {
    EXPECT_EQ(waits("megatron", "gpt_oss_20b", phase), 1);
    EXPECT_EQ(waits("megatron", "qwen3_30b_a3b", phase), 0);
  }
}

std::int64_t bytes_of_parameters(const Schedule& schedule) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::resident && buffer.category == MemoryCategory::parameters)
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return bytes;
}

// Two copies in fp8 beside 16-bit weights, or in their place.
TEST(TransformerEngine, KeepsWeightsAsTheyAreAndTransposed) {
  const Schedule bf16 = estimate_of({}).schedule, beside = estimate_of(fp8("delayed")).schedule,
                 alone = estimate_of(fp8("delayed", {{"fp8_param_gather", "true"}})).schedule;
  const auto weights = static_cast<double>(bytes_of_parameters(bf16));
  EXPECT_NEAR(static_cast<double>(bytes_of_parameters(beside)) - weights, 2.0 * products,
              1e-3 * weights);
  EXPECT_NEAR(static_cast<double>(bytes_of_parameters(alone)), weights, 1e-3 * weights);
  const auto gathered = [](const Schedule& schedule) {
    return static_cast<double>(
        bytes_over(schedule, Kernel::all_gather, Group::shard, Phase::forward));
  };
  EXPECT_EQ(gathered(beside), gathered(bf16));
  EXPECT_NEAR(gathered(alone) / gathered(bf16), 0.5, 1e-3);
}

// Where ranks split weights, a layer's arrive in one byte and are transposed for its backward pass.
TEST(TransformerEngine, OfFsdpGathersOneByteAndTransposesAgain) {
  const Flags fsdp = {{"engine", "megatron_fsdp"}};
  const Schedule bf16 = estimate_of(fsdp).schedule,
                 schedule = estimate_of(fp8("tensorwise", fsdp)).schedule;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const auto gathered = [&](const Schedule& of) {
      return static_cast<double>(bytes_over(of, Kernel::all_gather, Group::shard, phase));
    };
    EXPECT_NEAR(gathered(schedule) / gathered(bf16), 0.5, 1e-3);
  }
  std::int64_t transposed = 0;
  for (const Op& op : schedule.ops)
    if (op.origin.layer == 1 && op.origin.phase == Phase::backward &&
        schedule.parts[op.origin.part] == "copy_out")
      transposed += schedule.work(op).extents[0].code;
  EXPECT_EQ(transposed, products / layers);
}

// How often layer 1 makes copies of its weights in a step.
std::int64_t quantisations(const Schedule& schedule) {
  std::int64_t n = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
      if (op.origin.layer == 1 && op.origin.phase == Phase::forward &&
          schedule.parts[op.origin.part] == "copy_out")
        n += section.repeat;
    }
  return n;
}

TEST(TransformerEngine, QuantisesWeightsOnceAStep) {
  for (const std::string_view n : {"1", "2", "5"})
    for (const std::string_view gathers : {"true", "false"})
      EXPECT_EQ(
          quantisations(estimate_of(fp8("delayed", {{"fp8_param_gather", std::string(gathers)},
                                                    {"gradient_accumulation", std::string(n)}}))
                            .schedule),
          1);
}

TEST(TransformerEngine, ScalesFoundFirstCostAPass) {
  const Seconds delayed = estimate_of(fp8("delayed")).account.step,
                blockwise = estimate_of(fp8("blockwise")).account.step,
                tensorwise = estimate_of(fp8("tensorwise")).account.step,
                bf16 = estimate_of({}).account.step;
  EXPECT_LT(delayed, blockwise);
  EXPECT_LT(blockwise, tensorwise);
  EXPECT_LT(tensorwise, bf16);
}

const Flags four = {{"tensor_parallel", "4"}};
const Flags four_in_pieces = {{"tensor_parallel", "4"}, {"tensor_parallel_overlap", "true"}};

// A ring of t - 1 steps for what products wait for, pieces of what they make; what products already
// hide stays whole.
TEST(ExchangesInPieces, CarryTheSameBytesBesideProducts) {
  const Estimate whole = estimate_of(four), cut = estimate_of(four_in_pieces);
  const auto bytes = [&](Kernel kernel, Phase phase) {
    return bytes_over(cut.schedule, kernel, Group::tensor, phase);
  };
  EXPECT_EQ(bytes(Kernel::send_receive, Phase::forward), 2 * 3 * 2 * s * h / 4);
  EXPECT_EQ(bytes(Kernel::all_gather, Phase::forward), 0);
  EXPECT_EQ(bytes(Kernel::reduce_scatter, Phase::forward), 2 * 2 * s * h);
  EXPECT_EQ(bytes(Kernel::send_receive, Phase::backward), 2 * 3 * 2 * s * h / 4);
  EXPECT_EQ(bytes(Kernel::all_gather, Phase::backward), 2 * 2 * s * h);
  EXPECT_EQ(bytes(Kernel::reduce_scatter, Phase::backward), 2 * 2 * s * h);
  EXPECT_EQ(cut.model_flops, whole.model_flops);
  EXPECT_NEAR(cut.hardware_flops.value / whole.hardware_flops.value, 1, 1e-9);
}

TEST(ExchangesInPieces, ExposeLessTraffic) {
  const Flags longer = {{"pack_length", "16384"}, {"sample_length", "2048"}};
  EXPECT_LT(estimate_of(test::with(four_in_pieces, longer)).account.step,
            estimate_of(test::with(four, longer)).account.step);
}

std::string refusal_of(const Flags& flags) {
  return test::refusal_by([&] { plan_of(flags); });
}

TEST(TransformerEngine, RefusesWhatIsNotModelled) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal_of(fp8("mxfp8")), HasSubstr("a scale for 32 elements"));
  EXPECT_THAT(refusal_of({{"fp8_recipe", "delayed"}}), HasSubstr("no product runs in fp8"));
  EXPECT_THAT(refusal_of({{"fp8_param_gather", "true"}}), HasSubstr("no product runs in fp8"));
  const Flags torchtitan = {{"engine", "torchtitan"}, {"loss_chunk", "none"}};
  EXPECT_THAT(refusal_of(test::with(fp8("delayed"), torchtitan)), HasSubstr("one way to scale"));
  EXPECT_THAT(refusal_of(test::with(four_in_pieces, torchtitan)),
              HasSubstr("does not exchange in pieces"));
  EXPECT_THAT(refusal_of({{"tensor_parallel_overlap", "true"}}), HasSubstr("share tokens"));
  EXPECT_THAT(refusal_of(test::with(four_in_pieces, {{"tensor_sequence_parallel", "false"}})),
              HasSubstr("share tokens"));
  EXPECT_THAT(refusal_of({{"devices", "16"},
                          {"tensor_parallel", "16"},
                          {"tensor_parallel_across_nodes", "true"},
                          {"tensor_parallel_overlap", "true"}}),
              HasSubstr("do not fit a node"));
}

}  // namespace
}  // namespace xt
