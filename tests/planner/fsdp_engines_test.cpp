// What engines torchtitan and fsdp1 do that xtuner_v1 does not: recompute by op, kernels op by op,
// the root as one unit, gradients reduced in fp32, attention by several libraries.

#include <gtest/gtest.h>

#include <map>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::with;

const Flags llama = {{"model", "llama3_1_8b"},      {"machine", "h100_sxm"}, {"devices", "8"},
                     {"engine", "torchtitan"},      {"pack_length", "8192"}, {"loss_chunk", "none"},
                     {"attention_kernel", "flash2"}};
const Flags per_op = {{"recompute_ops", "norms+activations+every_second_product"}};
constexpr int layers = 32;

Estimate estimate_with(const Flags& more) { return estimate(test::plan_of(with(llama, more))); }

// Ops of a layer that run again, by kernel.
std::map<Kernel, int> run_again(const Schedule& schedule, std::int16_t layer) {
  std::map<Kernel, int> counts;
  for (const Op& op : schedule.ops)
    if (op.origin.phase == Phase::recompute && op.origin.layer == layer)
      ++counts[schedule.work(op).kernel];
  return counts;
}

// Source: torchtitan, parallelize_llama.py, per-op selective checkpointing: attention and every
// second product are kept. Of q, k, v, o, gate, up and down those are k, o and up.
TEST(RecomputeByOp, KeepsAttentionAndEverySecondProduct) {
  for (const char* compile : {"true", "false"}) {
    const Estimate answer = estimate_with(with(per_op, {{"compile", compile}}));
    std::map<Kernel, int> again = run_again(answer.schedule, 5);
    EXPECT_EQ(again[Kernel::matmul], 3) << compile;
    EXPECT_EQ(again[Kernel::attention], 0) << compile;
  }
  std::map<Kernel, int> whole = run_again(estimate_with({}).schedule, 5);
  EXPECT_EQ(whole[Kernel::matmul], 6);  // all but the last, which no backward pass reads
  EXPECT_EQ(whole[Kernel::attention], 1);
}

TEST(RecomputeByOp, LiesBetweenNothingAndEverything) {
  const Estimate none = estimate_with({{"recompute", "none"}}), some = estimate_with(per_op),
                 all = estimate_with({});
  EXPECT_LT(none.account.step, some.account.step);
  EXPECT_LT(some.account.step, all.account.step);
  EXPECT_GT(none.device.allocated, some.device.allocated);
  EXPECT_GT(some.device.allocated, all.device.allocated);
}

// Without a compiler the product after which nothing is read is kept too, since it is of the kind.
TEST(RecomputeByOp, KeepsMoreWithoutACompiler) {
  const Flags fused = with(per_op, {{"compile", "true"}}),
              eager = with(per_op, {{"compile", "false"}});
  const auto saved = [](const Flags& flags) {
    return estimate_with(flags).timeline.device_memory.by_category[static_cast<std::size_t>(
        MemoryCategory::saved_activations)];
  };
  const std::int64_t output = 8192 * 4096 * 2;
  EXPECT_NEAR(static_cast<double>((saved(eager) - saved(fused)).value), layers * output,
              2.0 * output);
}

TEST(EagerKernels, ComputeTheSameInMoreTime) {
  const Flags early = {{"recompute_early_stop", "true"}};  // as the compiled one does
  const Estimate fused = estimate_with(early);
  const Estimate eager = estimate_with(test::with(early, {{"compile", "false"}}));
  EXPECT_EQ(fused.hardware_flops.value, eager.hardware_flops.value);
  EXPECT_EQ(fused.model_flops.value, eager.model_flops.value);
  EXPECT_LT(fused.account.step, eager.account.step);
  EXPECT_LT(fused.schedule.ops.size(), eager.schedule.ops.size());
}

std::map<Kernel, double> bytes_sent(const Schedule& schedule) {
  std::map<Kernel, double> bytes;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.group == Group::shard)
      bytes[work.kernel] += static_cast<double>(work.extents[0].code * width(work.dtype));
  }
  return bytes;
}

TEST(Reductions, InFp32SendTwiceTheBytesAndChangeNoGather) {
  auto narrow = bytes_sent(estimate_with({{"reduce_dtype", "bf16"}}).schedule);
  auto wide = bytes_sent(estimate_with({{"reduce_dtype", "fp32"}}).schedule);
  EXPECT_EQ(wide[Kernel::reduce_scatter], 2 * narrow[Kernel::reduce_scatter]);
  EXPECT_EQ(wide[Kernel::all_gather], narrow[Kernel::all_gather]);
}

// The root is gathered once a step and every layer but the last twice: 2 bytes a parameter each.
TEST(Root, IsGatheredOnceAndTheLastLayerToo) {
  const Plan plan = test::plan_of(llama);
  const double vocabulary = 2.0 * 128256 * 4096;
  const double all = static_cast<double>(count_parameters(graph_of(plan), 1));
  const double layer = (all - vocabulary) / layers;
  const double expected = 2 * (vocabulary + (2 * layers - 1) * layer);
  auto sent = bytes_sent(lower(graph_of(plan), plan.strategy));
  EXPECT_NEAR(sent[Kernel::all_gather] / expected, 1, 1e-3);
}

TEST(Pools, HoldMoreThanIsAllocatedWhereStreamsHaveTheirOwn) {
  const auto pooled = [](const Schedule& schedule) {
    return pooled_peak(schedule, assumed_bindings(schedule), Space::device);
  };
  const Estimate titan = estimate_with({});
  EXPECT_GT(pooled(titan.schedule), titan.timeline.device_memory.peak);
  const Estimate own = estimate(test::plan_of(
      {{"model", "qwen3_0_6b"}, {"machine", "h100_sxm"}, {"devices", "8"}, {"engine", "xt_run"}}));
  EXPECT_EQ(pooled(own.schedule), own.timeline.device_memory.peak);
}

TEST(AttentionKernel, ChangesTheTimeOfAttentionOnly) {
  const Estimate slow = estimate_with({{"attention_kernel", "flash2"}}),
                 fast = estimate_with({{"attention_kernel", "flash3"}});
  ASSERT_EQ(slow.schedule, fast.schedule);
  for (std::size_t i = 0; i < slow.schedule.works.size(); ++i) {
    const bool is_attention = kernel_class(slow.schedule.works[i].kernel) == KernelClass::attention;
    EXPECT_EQ(slow.prices.demands[i] == fast.prices.demands[i], !is_attention);
    if (is_attention) {
      EXPECT_GT(alone(slow.prices.demands[i]), alone(fast.prices.demands[i]));
    }
  }
}

// A plan's ranks wait for the slowest of them, those of other stages too.
TEST(ClockSpread, CountsAllRanksOfAPlan) {
  const Flags stages = {{"pipeline_parallel", "4"}, {"gradient_accumulation", "4"}};
  for (const Flags& flags : {llama, with(llama, stages)}) {
    Plan plan = test::plan_of(flags);
    const Estimate spread = estimate(plan);
    const double slowest = slowest_clock(plan.profile, plan.strategy.ranks);
    plan.profile.clock_spread.reset();
    const Estimate alike = estimate(plan);
    for (std::size_t i = 0; i < alike.schedule.works.size(); ++i) {
      const bool is_product = kernel_class(alike.schedule.works[i].kernel) == KernelClass::matrix;
      EXPECT_NEAR(alike.prices.demands[i].on(Resource::matrix).value,
                  spread.prices.demands[i].on(Resource::matrix).value *
                      (is_product ? slowest / plan.profile.sustained_clock->value : 1),
                  1e-12);
    }
    EXPECT_GT(spread.account.step.value, alike.account.step.value);
  }
}

TEST(SustainedClock, StretchesProductsOnly) {
  Plan plan = test::plan_of(llama);
  const Estimate before = estimate(plan);
  plan.profile.sustained_clock->value /= 2;
  const Estimate after = estimate(plan);
  for (std::size_t i = 0; i < before.schedule.works.size(); ++i) {
    const bool is_product = kernel_class(before.schedule.works[i].kernel) == KernelClass::matrix;
    if (!is_product) {
      EXPECT_EQ(before.prices.demands[i], after.prices.demands[i]);
    } else {
      EXPECT_NEAR(after.prices.demands[i].on(Resource::matrix) /
                      before.prices.demands[i].on(Resource::matrix),
                  2, 1e-9);
    }
  }
}

// Source: MosaicML Composer, optim/decoupled_weight_decay.py, counted against a fused kernel
TEST(Fsdp1, UpdatesOpByOpAndConcatenatesGradients) {
  const Flags mpt = {{"model", "mpt_7b"},
                     {"machine", "a100_80g_sxm"},
                     {"devices", "8"},
                     {"pack_length", "2048"},
                     {"loss_chunk", "none"}};
  const auto bytes_of = [&](const char* engine, Phase phase) {
    const Plan plan = test::plan_of(with(mpt, {{"engine", engine}, {"reduce_dtype", "bf16"}}));
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    double bytes = 0;
    for (const Op& op : schedule.ops)
      if (op.origin.phase == phase &&
          kernel_class(schedule.work(op).kernel) == KernelClass::memory_bound)
        bytes += static_cast<double>(
            memory_traffic(schedule.work(op), assumed_bindings(schedule)).value);
    return bytes;
  };
  const double shard = 6649286656.0 / 8;
  EXPECT_NEAR(
      (bytes_of("fsdp1", Phase::optimizer) - bytes_of("torchtitan", Phase::optimizer)) / shard, 60,
      0.1);
}

// Bytes that are gathered while the loss runs.
std::int64_t gathered_at_loss(const Flags& more) {
  const Estimate answer = estimate_with(more);
  const MemoryPeak peak = memory_peak_in(answer.schedule, assumed_bindings(answer.schedule),
                                         Space::device, Phase::loss);
  return peak.by_category[static_cast<std::size_t>(MemoryCategory::gathered_parameters)].value;
}

// Llama 3 has 128256 words of 4096.
TEST(Root, OfMindSpeedIsNoUnitSoThatTheEmbeddingIsGivenUp) {
  EXPECT_EQ(gathered_at_loss({}) - gathered_at_loss({{"engine", "mindspeed_fsdp"}}),
            std::int64_t{128256} * 4096 * 2);
}

}  // namespace
}  // namespace xt
