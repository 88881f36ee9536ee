// What is known of XTuner V1 in closed form, against the schedules of its engine.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Estimate estimate_of(const Flags& more) {
  const Flags flags = {{"machine", "h800_sxm"}, {"engine", "xtuner_v1"}, {"devices", "8"}};
  return estimate(test::plan_of(test::with(flags, more)));
}

// Bytes that collectives of `kernel` over shards move per rank in the micro-step, as a ring does.
double moved(const Schedule& schedule, Kernel kernel) {
  double bytes = 0;
  for (std::size_t i = at(schedule.sections[1].begin); i < at(schedule.sections[1].end); ++i) {
    const Work& work = schedule.work(schedule.ops[i]);
    if (work.kernel != kernel) continue;
    const double n = schedule.group(work.group).size;
    bytes += static_cast<double>(work.extents[0].code * width(work.dtype)) * (n - 1) / n;
  }
  return bytes;
}

// Source: XTuner V1: a gather of bf16 weights in the forward pass, one in the backward pass and a
// reduction of bf16 gradients; all but what stays gathered: the last routed layer and the head
TEST(XtunerV1, FsdpMovesSixBytesPerParameterAndMicroStep) {
  const std::int64_t V = 151936, E = 2048, layer = 623'120'640, P = 30'532'122'624;
  const Estimate answer = estimate_of({{"model", "qwen3_30b_a3b"}, {"loss_chunk", "1024"}});
  const double ring = 7.0 / 8.0;
  const double gathered = 2.0 * (2 * P - layer - (V * E + E)) * ring;
  EXPECT_NEAR(moved(answer.schedule, Kernel::all_gather) / gathered, 1.0, 1e-4);
  EXPECT_NEAR(moved(answer.schedule, Kernel::reduce_scatter) / (2.0 * P * ring), 1.0, 1e-4);
}

struct Dense {
  std::int64_t parameters = 8'190'735'360, layers = 36, E = 4096, V = 151936, ranks = 8;

  // Bytes per rank of `each` bytes per parameter.
  double sharded(double each) const {
    return each * static_cast<double>(parameters) / static_cast<double>(ranks);
  }
};

double bytes(Bytes of) { return static_cast<double>(of.value); }

Bytes peak_in(const Estimate& answer, Phase phase) {
  return memory_peak_in(answer.schedule, assumed_bindings(answer.schedule), Space::device, phase)
      .peak;
}

// Source: XTuner V1, loss/chunk_loss.py: fp32 logits, their log-probabilities and two gradients of
// them (16·C·V) beside lm_head, its gradient and that of a chunk; or a second chunk's gradient
// instead of the fp32 ones
TEST(XtunerV1, LossPhaseTakesTheClosedForm) {
  const Dense m;
  for (const std::int64_t pack : {4096, 16384})
    for (const std::int64_t chunk : {512, 1024, 2048, 4096}) {
      const Estimate answer = estimate_of({{"model", "qwen3_8b"},
                                           {"pack_length", std::to_string(pack)},
                                           {"loss_chunk", std::to_string(chunk)}});
      const double head = 2.0 * static_cast<double>(m.V * m.E);
      const double logits = static_cast<double>(chunk * m.V);
      const double row = 2.0 * static_cast<double>(pack * m.E);
      const double inputs = static_cast<double>(m.layers + 1) * row, hidden = 2 * row;
      const double earlier = chunk < pack ? head : 0;  // gradient of the chunk before
      const double expected = m.sharded(12) + inputs + hidden + earlier +
                              std::max(2 * head + 16 * logits, 3 * head + 6 * logits);
      EXPECT_NEAR(bytes(peak_in(answer, Phase::loss)) / expected, 1.0, 0.02)
          << pack << " " << chunk;
    }
}

TEST(XtunerV1, OptimizerPhaseTakesSixteenBytesPerParameterAndTwoCopiesOfTheLargestShard) {
  const Dense m;
  const Estimate answer = estimate_of({{"model", "qwen3_8b"}, {"loss_chunk", "1024"}});
  const double largest = 4.0 * static_cast<double>(m.V * m.E) / static_cast<double>(m.ranks);
  EXPECT_NEAR(bytes(peak_in(answer, Phase::optimizer)) / (m.sharded(16) + 2 * largest), 1.0, 0.005);
}

// Source: XTuner V1, SwapAdamW: 8 bytes per parameter on the host, 16 moved over the host link
TEST(XtunerV1, AnOptimizerOnTheHostTakesEightBytesPerParameterThereAndMovesThemBothWays) {
  const Dense m;
  const Flags flags = {{"model", "qwen3_8b"}, {"loss_chunk", "1024"}};
  Flags swapped = flags;
  swapped.push_back({"swap_optimizer", "true"});
  const Estimate plain = estimate_of(flags), host = estimate_of(swapped);
  EXPECT_NEAR(bytes(host.timeline.host_memory.peak) / m.sharded(8), 1.0, 0.01);
  EXPECT_NEAR(
      (bytes(peak_in(plain, Phase::loss)) - bytes(peak_in(host, Phase::loss))) / m.sharded(8), 1.0,
      0.01);
  double moved = 0;
  for (const Op& op : host.schedule.ops) {
    const Work& work = host.schedule.work(op);
    if (kernel_class(work.kernel) == KernelClass::copy)
      moved += static_cast<double>(work.extents[0].code * width(work.dtype));
  }
  EXPECT_NEAR(moved / m.sharded(16), 1.0, 0.01);
  EXPECT_GT(host.account.step, plain.account.step);
}

// A token with 8 experts on 8 ranks has some on 8·(1 − (7/8)⁸) = 5.25 of them.
TEST(XtunerV1, DeepEpSendsATokenOncePerRankAndExposesLess) {
  const Flags rows = {{"model", "qwen3_30b_a3b"}, {"expert_parallel", "8"}, {"loss_chunk", "1024"}};
  const Estimate all = estimate_of(rows),
                 once = estimate_of(test::with(rows, {{"dispatch", "deep_ep"}}));
  const auto sent = [](const Estimate& answer) {
    double elements = 0;
    for (const Op& op : answer.schedule.ops) {
      const Work& work = answer.schedule.work(op);
      if (work.kernel == Kernel::all_to_all && op.origin.phase == Phase::forward)
        elements += static_cast<double>(work.extent(0, assumed_bindings(answer.schedule)));
    }
    return elements;
  };
  EXPECT_NEAR(sent(once) / sent(all), 8 * (1 - std::pow(7.0 / 8, 8)) / 8, 1e-3);
  EXPECT_LT(once.account.step, all.account.step);
  EXPECT_EQ(once.model_flops, all.model_flops);
}

// Bytes that collectives of `kernel` over ranks that share experts send in `phase`, per rank.
double sent_to_experts(const Estimate& answer, Kernel kernel, Phase phase) {
  double bytes = 0;
  for (const Op& op : answer.schedule.ops) {
    const Work& work = answer.schedule.work(op);
    if (work.kernel != kernel || work.group != Group::expert || op.origin.phase != phase) continue;
    bytes +=
        static_cast<double>(memory_traffic(work, assumed_bindings(answer.schedule)).value) * 7 / 8;
  }
  return bytes;
}

// Source: XTuner V1, module/dispatcher/agrs.py: of T tokens of width E on each of 8 ranks, (8 -
// 1)·T·E elements of 2 bytes are gathered and as many reduced, with 8 of each token's 8-byte
// indices and 4-byte weights exchanged; the backward pass gathers and reduces once more
TEST(XtunerV1, AgrsGathersAllTokensAndReducesWhatExpertsMakeOfThem) {
  const std::int64_t T = 4096, E = 2048, layers = 48;
  const Flags flags = {{"model", "qwen3_30b_a3b"},
                       {"expert_parallel", "8"},
                       {"loss_chunk", "1024"},
                       {"pack_length", "4096"}};
  const Estimate rows = estimate_of(flags),
                 tokens = estimate_of(test::with(flags, {{"dispatch", "agrs"}}));
  const auto all = static_cast<double>(layers * 7 * T * E * 2);
  EXPECT_NEAR(sent_to_experts(tokens, Kernel::all_gather, Phase::forward) / all, 1, 1e-9);
  EXPECT_NEAR(sent_to_experts(tokens, Kernel::reduce_scatter, Phase::forward) / all, 1, 1e-9);
  EXPECT_NEAR(sent_to_experts(tokens, Kernel::all_gather, Phase::backward) / all, 1, 1e-9);
  EXPECT_NEAR(sent_to_experts(tokens, Kernel::reduce_scatter, Phase::backward) / all, 1, 1e-9);
  const auto choices = static_cast<double>(layers * T * 8 * (8 + 4)) * 7 / 8;
  EXPECT_NEAR(sent_to_experts(tokens, Kernel::all_to_all, Phase::forward) / choices, 1, 1e-9);
  EXPECT_EQ(sent_to_experts(tokens, Kernel::all_to_all, Phase::backward), 0);
  EXPECT_EQ(tokens.model_flops, rows.model_flops);
}

// A rank has 8·T·8/8 rows, as with a balanced router, but no host waits for their number, and no
// row is copied on its way beside the permutation.
TEST(XtunerV1, AgrsKnowsItsRowsBeforehand) {
  const Flags flags = {{"model", "qwen3_30b_a3b"},
                       {"expert_parallel", "8"},
                       {"loss_chunk", "1024"},
                       {"recompute", "none"}};
  const Estimate rows = estimate_of(flags),
                 tokens = estimate_of(test::with(flags, {{"dispatch", "agrs"}}));
  for (const Op& op : tokens.schedule.ops) {
    const Work& work = tokens.schedule.work(op);
    EXPECT_NE(work.kernel, Kernel::bind_rows);
    if (kernel_class(work.kernel) != KernelClass::grouped_matrix) continue;
    EXPECT_EQ(work.extents[0].code, 4096 * 8);
  }
  const auto kept = [](const Estimate& answer) {
    return bytes(memory_peak_in(answer.schedule, assumed_bindings(answer.schedule), Space::device,
                                Phase::loss)
                     .by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)]);
  };
  // The other dispatch keeps rows as they come back, rows as they arrived, and weights; this one
  // the experts' output, rows, and the weights that arrived: as much, but for counts of 16 experts
  // instead of twice 128.
  EXPECT_EQ(kept(tokens) - kept(rows), 48.0 * (16 - 2 * 128) * 8);
}

TEST(XtunerV1, ReplicasDivideTheShardsAndAddAnAllReducePerGradientShard) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"devices", "64"}, {"loss_chunk", "1024"}};
  Flags replicated = flags;
  replicated.push_back({"shard_ranks", "16"});
  const Estimate whole = estimate_of(flags), parts = estimate_of(replicated);
  const auto resident = [](const Estimate& answer) {
    return answer.timeline.device_memory
        .by_category[static_cast<std::size_t>(MemoryCategory::parameters)];
  };
  EXPECT_NEAR(bytes(resident(parts)) / bytes(resident(whole)), 4.0, 1e-3);
  const auto reductions = [](const Schedule& schedule) {
    return std::ranges::count_if(schedule.ops, [&](const Op& op) {
      return schedule.work(op).group == Group::replica && op.origin.phase == Phase::backward;
    });
  };
  EXPECT_EQ(reductions(whole.schedule), 0);
  EXPECT_EQ(reductions(parts.schedule), 48 * 2 + 2);
}

// Parameters of a layer of Qwen3-8B: 2·4096·128·(32 + 8) + 3·4096·12288 + 2·4096 + 2·128
TEST(XtunerV1, LayersThatStayGatheredSkipTheirSecondGatherAndAreAllThereAtTheLoss) {
  const double layer = 2.0 * 4096 * 128 * (32 + 8) + 3.0 * 4096 * 12288 + 2 * 4096 + 2 * 128;
  const Flags flags = {{"model", "qwen3_8b"}, {"devices", "16"}, {"loss_chunk", "1024"}};
  const Estimate reshards = estimate_of(flags),
                 stays = estimate_of(test::with(flags, {{"reshard_after_forward", "false"}}));
  const auto gathered = [](const Estimate& answer, Phase phase) {
    double elements = 0;
    for (const Op& op : answer.schedule.ops)
      if (op.origin.phase == phase && op.origin.layer >= 0 &&
          answer.schedule.work(op).kernel == Kernel::all_gather)
        elements += static_cast<double>(answer.schedule.work(op).extents[0].code);
    return elements;
  };
  EXPECT_NEAR(gathered(reshards, Phase::backward) / (36 * layer), 1, 1e-4);
  EXPECT_EQ(gathered(stays, Phase::backward), 0);
  EXPECT_EQ(gathered(stays, Phase::forward), gathered(reshards, Phase::forward));
  const auto parameters = [](const Estimate& answer) {
    return bytes(answer.timeline.device_memory
                     .by_category[static_cast<std::size_t>(MemoryCategory::gathered_parameters)]);
  };
  EXPECT_GE(parameters(stays) / (36 * 2 * layer), 0.95);
  EXPECT_LE(parameters(reshards) / (2 * layer), 3.5 + 151936 * 4096 / layer);
  EXPECT_LE(stays.account.step, reshards.account.step);
}

// Source: XTuner V1, ops/comm/sequence_parallel.py: S·(2·heads + 2·max(key heads, sp))·d elements
// of 2 bytes are exchanged per layer and pass, of which (sp − 1)/sp leave the rank
TEST(XtunerV1, SequenceParallelExchangesHeadsAndKeepsParametersAndFlops) {
  const std::int64_t H = 32, K = 8, D = 128, pack = 32768, layers = 36;
  for (const std::int64_t sp : {2, 8, 16}) {
    const Flags flags = {
        {"model", "qwen3_8b"}, {"devices", "16"}, {"pack_length", "32768"}, {"loss_chunk", "1024"}};
    Flags split = flags;
    split.push_back({"sequence_parallel", std::to_string(sp)});
    split.push_back({"sequence_parallel_across_nodes", "true"});
    const Estimate one = estimate_of(flags), many = estimate_of(split);
    EXPECT_NEAR(one.model_flops.value / many.model_flops.value, static_cast<double>(sp), 1e-9);
    EXPECT_EQ(one.timeline.device_memory
                  .by_category[static_cast<std::size_t>(MemoryCategory::parameters)],
              many.timeline.device_memory
                  .by_category[static_cast<std::size_t>(MemoryCategory::parameters)]);
    const double sent = 2.0 * static_cast<double>(pack / sp * (2 * H + 2 * std::max(K, sp)) * D) *
                        static_cast<double>(sp - 1) / static_cast<double>(sp);
    // Forward, recompute and backward.
    EXPECT_NEAR(moved(many.schedule, Kernel::exchange_heads) / (3.0 * layers * sent), 1.0, 1e-9);
  }
}

}  // namespace
}  // namespace xt
