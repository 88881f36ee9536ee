// Recompute of some modules of a layer: what is no longer kept, and what runs again.
//
// Source: Megatron-LM, core/transformer/transformer_config.py, recompute_modules

#include <gtest/gtest.h>

#include <string>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "planner/validate/row_notes.h"
#include "tests/planner/plans.h"
#include "tests/planner/published_rows.h"

namespace xt {
namespace {

using test::Flags;

// Llama 3.1 8B.
constexpr std::int64_t layers = 32, h = 4096, ffn = 14336, s = 4096;

Estimate estimate_of(const std::string& ops) {
  return estimate(test::plan_of({{"model", "llama3_1_8b"},
                                 {"machine", "h100_sxm"},
                                 {"engine", "megatron"},
                                 {"recompute", ops.empty() ? "none" : "all"},
                                 {"recompute_ops", ops.empty() ? "all" : ops},
                                 {"pack_length", std::to_string(s)}}));
}

std::int64_t kept(const Estimate& answer) {
  const MemoryPeak peak = memory_peak_in(answer.schedule, assumed_bindings(answer.schedule),
                                         Space::device, Phase::loss);
  return peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value;
}

std::int64_t dropped(const std::string& ops) {
  return kept(estimate_of("")) - kept(estimate_of(ops));
}

int runs_again(const Estimate& answer, Kernel kernel) {
  int found = 0;
  for (const Op& op : answer.schedule.ops)
    found += op.origin.phase == Phase::recompute && op.origin.layer == 0 &&
                     answer.schedule.work(op).kernel == kernel
                 ? 1
                 : 0;
  return found;
}

TEST(RecomputeModules, LayerNormsDropTheirTwoOutputsAndMoments) {
  EXPECT_EQ(dropped("layer_norms"), layers * 2 * s * (2 * h + 4));
  const Estimate answer = estimate_of("layer_norms");
  EXPECT_EQ(runs_again(answer, Kernel::rms_norm), 2);
  EXPECT_EQ(runs_again(answer, Kernel::matmul), 0);
}

TEST(RecomputeModules, TheActivationFunctionDropsTheInputOfTheLastProduct) {
  EXPECT_EQ(dropped("activations"), layers * s * 2 * ffn);
  EXPECT_EQ(runs_again(estimate_of("activations"), Kernel::swiglu), 1);
}

// OLMo 3 norms what attention gives and adds the residual to that, which is no part of the ffn.
TEST(RecomputeModules, AResidualBehindTheNormOfAttentionIsNotOfTheFfn) {
  const Estimate answer = estimate(test::plan_of({{"model", "olmo3_7b"},
                                                  {"machine", "h100_sxm"},
                                                  {"engine", "megatron"},
                                                  {"further_tokens", "1"},
                                                  {"fp8_products", "true"},
                                                  {"recompute", "all"},
                                                  {"recompute_ops", "products+ffn"}}));
  EXPECT_EQ(runs_again(answer, Kernel::add), 1);
}

// Inputs and outputs of the activation function go; the ffn's input, which its norm wrote, stays.
TEST(RecomputeModules, AnFfnRunsAgainAsAWhole) {
  EXPECT_EQ(dropped("ffn"), layers * s * 2 * 3 * ffn);
  const Estimate answer = estimate_of("ffn");
  EXPECT_EQ(runs_again(answer, Kernel::matmul), 2);
  EXPECT_EQ(runs_again(answer, Kernel::rms_norm), 0);
  EXPECT_EQ(runs_again(answer, Kernel::attention), 0);
}

// Qwen3-30B-A3B, eight ranks of experts.
Estimate routed_without(const std::string& ops) {
  return estimate(test::plan_of({{"model", "qwen3_30b_a3b"},
                                 {"machine", "h100_sxm"},
                                 {"devices", "8"},
                                 {"engine", "torchtitan"},
                                 {"expert_parallel", "8"},
                                 {"recompute", ops.empty() ? "none" : "all"},
                                 {"recompute_ops", ops.empty() ? "all" : ops},
                                 {"pack_length", std::to_string(s)}}));
}

// torchtitan keeps what it exchanged, and products that are no product of experts.
TEST(RecomputeModules, ProductsOfExpertsRunAgainWithoutTheirExchanges) {
  const Estimate products = routed_without("expert_products"), all = routed_without("experts");
  EXPECT_GT(runs_again(products, Kernel::grouped_matmul), 0);
  EXPECT_EQ(runs_again(products, Kernel::grouped_matmul), runs_again(all, Kernel::grouped_matmul));
  EXPECT_EQ(runs_again(products, Kernel::all_to_all), 0);
  EXPECT_GT(runs_again(all, Kernel::all_to_all), 0);
  EXPECT_EQ(runs_again(products, Kernel::matmul), 0);
  EXPECT_LT(kept(products), kept(routed_without("")));
}

// Qwen3-8B, whose layers run again as a whole.
int products_again(const Flags& more) {
  return runs_again(
      estimate(test::plan_of(test::with(
          {{"model", "qwen3_8b"}, {"machine", "h100_sxm"}, {"devices", "8"}, {"recompute", "all"}},
          more))),
      Kernel::matmul);
}

// Source: torchtitan, pull request 1580, whose checkpoints do not stop early
TEST(RecomputeToEnd, TheLastProductRunsAgainOnlyWhereNoCompilerSeesTheLayer) {
  const Flags eager = {{"engine", "torchtitan"}, {"compile", "false"}};
  const int early = products_again(test::with(eager, {{"recompute_early_stop", "true"}}));
  EXPECT_EQ(products_again(eager), early + 1);
  EXPECT_EQ(products_again({{"engine", "torchtitan"}}), early);
  EXPECT_EQ(products_again({{"engine", "accelerate"}, {"compile", "false"}}), early);
}

TEST(RecomputeToEnd, CompiledLayersWithExpertsChooseThemAgain) {
  const auto again = [](const Flags& more, Kernel kernel) {
    return runs_again(estimate(test::plan_of(test::with({{"model", "qwen3_30b_a3b"},
                                                         {"machine", "h100_sxm"},
                                                         {"devices", "8"},
                                                         {"engine", "torchtitan"},
                                                         {"expert_parallel", "8"},
                                                         {"recompute", "all"}},
                                                        more))),
                      kernel);
  };
  const Flags early = {{"recompute_early_stop", "true"}};
  for (const Kernel kernel : {Kernel::exchange_counts, Kernel::bind_rows, Kernel::unpermute}) {
    EXPECT_EQ(again({}, kernel), 1) << name(kernel);
    EXPECT_EQ(again(early, kernel), 0) << name(kernel);
  }
}

TEST(RecomputeToEnd, OthersHaveNoChoice) {
  const auto refusal = [](const char* engine) {
    return test::refusal_by([&] {
      test::plan_on_16_h100({{"engine", engine}, {"recompute_early_stop", "true"}});
    });
  };
  EXPECT_EQ(refusal("torchtitan"), "");
  EXPECT_NE(refusal("accelerate").find("what a backward pass reads"), std::string::npos);
  EXPECT_NE(refusal("megatron").find("whole layers"), std::string::npos);
}

TEST(RecomputeToEnd, IsOfRowsOfTorchtitanSinceItIsItsDefault) {
  PublishedRow row = test::row_of("torchtitan");
  row.framework = "torchtitan FSDP2";
  row.source.date = "2025-09-11";
  EXPECT_FALSE(stops_recompute_early(row));
  row.source.date = "2025-01";
  EXPECT_TRUE(stops_recompute_early(row));
  row.source.date = "2025-12";
  row.framework = "NeMo AutoModel (PyTorch FSDP2)";
  EXPECT_TRUE(stops_recompute_early(row));
}

}  // namespace
}  // namespace xt
