// Attention whose scores are tensors: what a layer keeps of them, computes and moves.

#include <gtest/gtest.h>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// GPT-2 large: biases, and dropout everywhere. Four samples, so that any number of heads fills the
// blocks of the fused softmax.
constexpr std::int64_t layers = 36, h = 1280, heads = 20, s = 1024, b = 4;

Estimate estimate_of(std::int64_t t, const Flags& more = {}) {
  const Flags flags = {{"model", "gpt2_large"},
                       {"machine", "a100_80g_sxm"},
                       {"devices", "4"},
                       {"engine", "megatron"},
                       {"attention_kernel", "unfused"},
                       {"recompute", "none"},
                       {"pack_length", std::to_string(b * s)},
                       {"sample_length", std::to_string(s)},
                       {"tensor_parallel", std::to_string(t)}};
  return estimate(test::plan_of(test::with(flags, more)));
}

const Flags core_attention = {{"recompute", "all"}, {"recompute_ops", "attention"}};

double kept(const Estimate& answer) {
  const MemoryPeak peak = memory_peak_in(answer.schedule, assumed_bindings(answer.schedule),
                                         Space::device, Phase::loss);
  return static_cast<double>(
      peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value);
}

// Beside the layers: the mask of the embedding's dropout and the output of the last layer; in them:
// fp32 moments of two norms.
double all(double of_layer, double t) {
  const double moments = static_cast<double>(b * s * 2 * 2 * 4), tokens_wide = b * s * h;
  return static_cast<double>(layers) * (of_layer + moments / t) + tokens_wide * (1 + 2) / t;
}

// Source: Korthikanti et al. 2022, arXiv 2205.05198, eq. 4: sbh·(34 + 5·as/h)/t
TEST(UnfusedAttention, ScoresAreKeptAsKorthikantiCountsThem) {
  for (const std::int64_t t : {1, 2, 4}) {
    const auto ranks = static_cast<double>(t);
    const double of_layer = static_cast<double>(b * s * h * 34 + 5 * heads * s * s * b) / ranks;
    EXPECT_NEAR(kept(estimate_of(t)) / all(of_layer, ranks), 1, 1e-9) << t;
  }
}

// Source: the same, table 2, sequence parallelism with selective recompute: 34·sbh/t
TEST(UnfusedAttention, SelectiveRecomputeKeepsNothingOfScores) {
  for (const std::int64_t t : {1, 4}) {
    const auto ranks = static_cast<double>(t);
    const double of_layer = static_cast<double>(b * s * h * 34) / ranks;
    EXPECT_NEAR(kept(estimate_of(t, core_attention)) / all(of_layer, ranks), 1, 1e-9) << t;
  }
}

// Source: Megatron-LM, megatron/model/fused_softmax.py: five heads of one sample fill no block of
// four rows, so weights of attention are kept in fp32, 4·as²b, in the place of 2·as²b
TEST(UnfusedAttention, WhereTheFusedSoftmaxDoesNotFitWeightsAreKeptInFp32) {
  const Flags one_sample = {{"pack_length", std::to_string(s)}, {"sequence_parallel", "1"}};
  const Flags no_fit = test::with(one_sample, {{"tensor_parallel", "4"}});
  const Flags fits = test::with(one_sample, {{"tensor_parallel", "1"}});
  const auto per_head = [&](const Flags& flags, double heads_here) {
    const double scores =
        kept(estimate_of(1, flags)) - kept(estimate_of(1, test::with(flags, core_attention)));
    return scores / (static_cast<double>(layers * s * s) * heads_here);
  };
  EXPECT_NEAR(per_head(fits, heads), 5, 1e-9);
  EXPECT_NEAR(per_head(no_fit, heads / 4.0), 5 + 2, 1e-9);
}

double executed(const Schedule& schedule, Phase phase) {
  double flops = 0;
  for (const Op& op : schedule.ops)
    if (op.origin.phase == phase && op.origin.layer == 0 &&
        schedule.work(op).kernel == Kernel::batched_matmul)
      flops += hardware_flops(schedule.work(op), {}).value;
  return flops;
}

// Two products forward and four back, each 2·s²h flops a sample, whatever the mask.
TEST(UnfusedAttention, ProductsAreOfWholeSquares) {
  const Schedule schedule = estimate_of(1).schedule;
  const double product = static_cast<double>(2 * b * s * s * h);
  EXPECT_EQ(executed(schedule, Phase::forward), 2 * product);
  EXPECT_EQ(executed(schedule, Phase::backward), 4 * product);
}

// Source: Megatron-LM, training/training.py, which counts the causal half of attention's flops
TEST(UnfusedAttention, MfuCountsWhatFusedAttentionCounts) {
  const Flags mpt = {{"model", "mpt_7b"}, {"pack_length", "2048"}, {"sample_length", "2048"}};
  const Estimate unfused = estimate_of(1, mpt);
  const Estimate fused = estimate_of(1, test::with(mpt, {{"attention_kernel", "flash2"}}));
  EXPECT_NEAR(unfused.model_flops.value / fused.model_flops.value, 1, 1e-12);
  EXPECT_GT(unfused.account.step, fused.account.step);
}

TEST(UnfusedAttention, AFusedKernelDropsNothing) {
  EXPECT_THROW(estimate_of(1, {{"attention_kernel", "flash2"}}), InputError);
}

}  // namespace
}  // namespace xt
