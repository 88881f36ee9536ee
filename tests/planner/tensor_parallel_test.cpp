// Ranks that share each product: what a layer keeps, exchanges and computes on each of them.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "costmodel/sim/simulate.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// MPT-7B: a GPT without biases and dropout.
constexpr std::int64_t layers = 32, h = 4096, heads = 32, s = 2048;

Estimate estimate_of(std::int64_t t, const Flags& more = {}) {
  Flags flags = {{"model", "mpt_7b"},
                 {"machine", "h100_sxm"},
                 {"devices", "8"},
                 {"engine", "megatron"},
                 {"recompute", "none"},
                 {"pack_length", "2048"},
                 {"tensor_parallel", std::to_string(t)}};
  return estimate(test::plan_of(test::with(flags, more)));
}

const Flags without_sequence_parallel = {{"tensor_sequence_parallel", "false"}};

// Bytes of activations that a rank keeps from the forward for the backward pass.
double kept(const Estimate& answer) {
  const MemoryPeak peak = memory_peak_in(answer.schedule, assumed_bindings(answer.schedule),
                                         Space::device, Phase::loss);
  return static_cast<double>(
      peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value);
}

// Source: Korthikanti et al. 2022, arXiv 2205.05198, eq. 4, sbh·34/t of a layer where attention
// scores are not kept. Without the masks of two dropouts, which our models do not have, 32; beside
// it what they leave out: fp32 moments of two norms, fp32 log-sum-exp of attention, and the output
// of the last layer.
TEST(TensorParallel, WithSequenceParallelActivationsOfALayerAreDivided) {
  for (const std::int64_t t : {1, 2, 4, 8}) {
    const double of_layer = static_cast<double>(s * (32 * h + 2 * 2 * 4 + 4 * heads));
    const double all = static_cast<double>(layers) * of_layer + static_cast<double>(2 * s * h);
    EXPECT_NEAR(kept(estimate_of(t)) / (all / static_cast<double>(t)), 1, 1e-9) << t;
  }
}

// Source: the same, eq. 2: sbh·(10 + 24/t), of which 2 are the masks
TEST(TensorParallel, WithoutSequenceParallelNormsAndResidualsAreWholeOnEveryRank) {
  for (const std::int64_t t : {2, 4, 8}) {
    const double of_layer = static_cast<double>(s * (8 * h + 2 * 2 * 4)) +
                            static_cast<double>(s * (24 * h + 4 * heads)) / static_cast<double>(t);
    const double all = static_cast<double>(layers) * of_layer + static_cast<double>(2 * s * h);
    EXPECT_NEAR(kept(estimate_of(t, without_sequence_parallel)) / all, 1, 1e-9) << t;
  }
}

// Core attention computed again: what flash attention keeps of scores is its log-sum-exp, and its
// output is kept for the product behind it.
TEST(TensorParallel, SelectiveRecomputeKeepsNothingOfScores) {
  const Flags selective = {{"recompute", "all"}, {"recompute_ops", "attention"}};
  const double dropped = static_cast<double>(layers * s * 4 * heads) / 4;
  EXPECT_NEAR((kept(estimate_of(4)) - kept(estimate_of(4, selective))) / dropped, 1, 1e-9);
}

// Sums over ranks are kept, and what is gathered of norms is gathered again: nothing is whole.
TEST(TensorParallel, RecomputeOfNormsKeepsNothingGathered) {
  const Flags per_op = {
      {"engine", "simple_fsdp"}, {"recompute", "all"}, {"recompute_ops", "norms+activations"}};
  const double whole = kept(estimate_of(1, per_op));
  for (const std::int64_t t : {2, 4})
    EXPECT_NEAR(kept(estimate_of(t, per_op)) * static_cast<double>(t) / whole, 1, 1e-9) << t;
}

struct Exchanges {
  int all_gathers = 0, reduce_scatters = 0, all_reduces = 0;
  bool operator==(const Exchanges&) const = default;
};

// Exchanges of whole activations of a layer in `phase`.
Exchanges exchanges_of_layer(const Schedule& schedule, Phase phase) {
  Exchanges found;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.group != Group::tensor || op.origin.phase != phase || op.origin.layer != 1) continue;
    EXPECT_EQ(work.extents[0], Extent(s * h));
    EXPECT_EQ(work.dtype, DType::bf16);
    found.all_gathers += work.kernel == Kernel::all_gather ? 1 : 0;
    found.reduce_scatters += work.kernel == Kernel::reduce_scatter ? 1 : 0;
    found.all_reduces += work.kernel == Kernel::all_reduce ? 1 : 0;
  }
  return found;
}

// Source: Korthikanti et al. 2022, section 4.2.2: all-gather and reduce-scatter around attention
// and around the ffn in either pass, and inputs gathered once more in the backward pass
TEST(TensorParallel, ALayerExchangesItsActivationsFourTimesInEitherPass) {
  const Schedule schedule = estimate_of(4).schedule;
  EXPECT_EQ(exchanges_of_layer(schedule, Phase::forward), (Exchanges{2, 2, 0}));
  EXPECT_EQ(exchanges_of_layer(schedule, Phase::backward), (Exchanges{4, 2, 0}));
  const Schedule reduced = estimate_of(4, without_sequence_parallel).schedule;
  EXPECT_EQ(exchanges_of_layer(reduced, Phase::forward), (Exchanges{0, 0, 2}));
  EXPECT_EQ(exchanges_of_layer(reduced, Phase::backward), (Exchanges{0, 0, 2}));
}

// Source: torchtitan on PyTorch's distributed tensors, which keep gathered inputs
TEST(TensorParallel, AnEngineThatOverlapsNothingKeepsGatheredInputs) {
  const Flags torchtitan = {{"engine", "torchtitan"}, {"loss_chunk", "none"}};
  const Estimate answer = estimate_of(4, torchtitan);
  EXPECT_EQ(exchanges_of_layer(answer.schedule, Phase::forward), (Exchanges{2, 2, 0}));
  EXPECT_EQ(exchanges_of_layer(answer.schedule, Phase::backward), (Exchanges{2, 2, 0}));
  const double of_layer = static_cast<double>(s * (32 * h + 2 * 2 * 4 + 4 * heads)) / 4 +
                          static_cast<double>(2 * s * h) * 2;
  const double all = static_cast<double>(layers) * of_layer + static_cast<double>(2 * s * h) / 4;
  // The two gathered inputs take the place of the shards that they are gathered from, one of which
  // nothing else reads.
  EXPECT_LT(kept(answer), all);
  EXPECT_GT(kept(answer), all - static_cast<double>(layers * 2 * 2 * s * h) / 4 - 1);
}

TEST(TensorParallel, FlopsAndTokensOfAllRanksAddUp) {
  const Estimate alone = estimate_of(1);
  for (const std::int64_t t : {2, 8})
    for (const Flags& more : {Flags{}, without_sequence_parallel}) {
      const Estimate shared = estimate_of(t, more);
      EXPECT_NEAR(shared.model_flops.value * static_cast<double>(t) / alone.model_flops.value, 1,
                  1e-12);
      EXPECT_EQ(shared.schedule.group(Group::tensor),
                (GroupShape{static_cast<std::int32_t>(t), 1}));
    }
}

// Ranks that have a part of the tokens each sum gradients of norms; those that have all need not.
TEST(TensorParallel, GradientsOfNormsAreSummedOnceAStep) {
  const auto summed = [](const Schedule& schedule) {
    std::int64_t elements = 0;
    for (const Op& op : schedule.ops)
      if (schedule.work(op).group == Group::tensor && op.origin.phase == Phase::reduce)
        elements += schedule.work(op).extents[0].code;
    return elements;
  };
  EXPECT_EQ(summed(estimate_of(2).schedule), (2 * layers + 1) * h);
  EXPECT_EQ(summed(estimate_of(2, without_sequence_parallel).schedule), 0);
}

// Time of products by their flops and `exchange` for each exchange of activations; everything else
// takes none.
Prices prices_of(const Schedule& schedule, double flops_per_s, double exchange) {
  const Bindings bindings = assumed_bindings(schedule);
  Prices prices;
  for (const Work& work : schedule.works) {
    Demand& demand = prices.demands.emplace_back();
    if (kernel_class(work.kernel) == KernelClass::matrix)
      demand.latency = Seconds(hardware_flops(work, bindings).value / flops_per_s);
    if (work.group == Group::tensor) demand.latency = Seconds(exchange);
  }
  return prices;
}

// Seconds between attention of neighbouring layers in `phase`, where all are as long.
double layer_time(const Schedule& schedule, Phase phase, double flops_per_s, double exchange) {
  const Timeline timeline =
      simulate(schedule, assumed_bindings(schedule), prices_of(schedule, flops_per_s, exchange));
  std::vector<double> starts;
  for (const Event& event : timeline.events) {
    const Op& op = schedule.op(event.op);
    const bool is_attention = kernel_class(schedule.work(op).kernel) == KernelClass::attention;
    if (is_attention && op.origin.phase == phase)
      starts.push_back(to_seconds(event.start - Instant{}).value);
  }
  return std::abs(starts.back() - starts.front()) / static_cast<double>(starts.size() - 1);
}

// Of a layer, products take F forward and 2·F backward, those of weights half of that; an exchange
// takes g. The backward pass of Megatron hides sums behind products of weights, and what it gathers
// again behind products of the ffn's output or of attention's.
//
//   forward 4·g + F    backward 2·g + 2·F where it hides exchanges, else 4·g + 2·F
TEST(TensorParallel, MegatronHidesHalfOfTheExchangesOfTheBackwardPass) {
  const double flops = 24.0 * static_cast<double>(s * h * h) / 4, F = 1e-3;
  for (const double g : {1e-5, 5e-5}) {
    const Schedule megatron = estimate_of(4).schedule;
    EXPECT_NEAR(layer_time(megatron, Phase::forward, flops / F, g) / (4 * g + F), 1, 1e-4);
    EXPECT_NEAR(layer_time(megatron, Phase::backward, flops / F, g) / (2 * g + 2 * F), 1, 1e-4);
    const Schedule torchtitan =
        estimate_of(4, {{"engine", "torchtitan"}, {"loss_chunk", "none"}}).schedule;
    EXPECT_NEAR(layer_time(torchtitan, Phase::forward, flops / F, g) / (4 * g + F), 1, 1e-4);
    EXPECT_NEAR(layer_time(torchtitan, Phase::backward, flops / F, g) / (4 * g + 2 * F), 1, 1e-4);
  }
}

TEST(TensorParallel, OneRankIsNoTensorParallelism) {
  const Schedule schedule = estimate_of(1).schedule;
  for (const Op& op : schedule.ops) EXPECT_NE(schedule.work(op).group, Group::tensor);
}

// Source: Megatron-LM, core/transformer/moe: expert tensor parallel size 1, experts over the ranks
// of both
TEST(TensorParallel, ExpertsAreSpreadOverTensorAndDataParallelRanks) {
  const Flags routed = {{"model", "qwen3_30b_a3b"}, {"expert_parallel", "8"}};
  const Schedule schedule = estimate_of(2, routed).schedule;
  EXPECT_EQ(schedule.group(Group::expert), (GroupShape{8, 1}));
  EXPECT_EQ(schedule.group(Group::shard), (GroupShape{4, 2}));
  for (const Op& op : schedule.ops)
    if (schedule.work(op).kernel == Kernel::permute) {
      EXPECT_EQ(schedule.work(op).extents[0], Extent(s / 2));
    }
}

}  // namespace
}  // namespace xt
