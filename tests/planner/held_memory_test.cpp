// Memory that outlasts the ops it is for: stand-ins for gradients, outputs that a script holds,
// the buffer in which gradients are put together.

#include <gtest/gtest.h>

#include "costmodel/ir/memory.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t tokens = 4096;

Schedule schedule_of(const Flags& more) {
  const Plan plan = test::plan_of(test::with({{"model", "qwen3_8b"},
                                              {"machine", "h100_sxm"},
                                              {"devices", "8"},
                                              {"pack_length", std::to_string(tokens)},
                                              {"recompute", "none"},
                                              {"loss_chunk", "none"}},
                                             more));
  return lower(graph_of(plan), plan.strategy);
}

std::int64_t bytes_at_rest(const Schedule& schedule, MemoryCategory category) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::resident && buffer.category == category)
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return bytes;
}

std::int64_t stand_ins(const Flags& more) {
  return bytes_at_rest(schedule_of(more), MemoryCategory::workspace);
}

// Of Qwen3-8B: queries, keys and values as one, the way out of attention, both halves of the ffn.
constexpr std::int64_t h = 4096, kv = 1024, f = 12288, vocabulary = 151936;
constexpr std::int64_t shapes = h * (h + 2 * kv) + h * h + 2 * f * h + f * h;

TEST(StandIns, OfMegatronAreOneFor16BitWeightsOfEachShape) {
  EXPECT_EQ(stand_ins({{"engine", "megatron"}}), 2 * shapes);
  EXPECT_EQ(stand_ins({{"engine", "megatron"}, {"tensor_parallel", "4"}}), 2 * shapes / 4);
}

// 128 experts have two shapes, like one.
TEST(StandIns, OfExpertsAreThoseOfOne) {
  constexpr std::int64_t e = 2048, heads = 4096, keys = 512, width = 768;
  constexpr std::int64_t routed = e * (heads + 2 * keys) + heads * e + 2 * width * e + width * e;
  const Flags experts = {{"engine", "megatron"}, {"model", "qwen3_30b_a3b"}};
  EXPECT_EQ(stand_ins(experts), 2 * routed);
  EXPECT_EQ(stand_ins(test::with(experts, {{"expert_parallel", "8"}})), 2 * routed);
}

TEST(StandIns, AreNoneWhereGradientsAreAddedByPasses) {
  for (const char* engine : {"mindspeed", "megatron_fsdp", "nanotron"})
    EXPECT_EQ(stand_ins({{"engine", engine}}), 0) << engine;
}

// Bytes that stand for lm_head's gradient while its product runs.
std::int64_t of_head(const char* engine) {
  const Schedule schedule = schedule_of({{"engine", engine}});
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::workspace && buffer.shape[0] == Extent(vocabulary))
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return bytes;
}

TEST(StandIns, OfTheHeadIsThereForItsProductOnly) {
  EXPECT_EQ(of_head("megatron"), 2 * vocabulary * h);
  EXPECT_EQ(of_head("mindspeed"), 0);
}

// Buffers that are alive at the last op of the backward pass, of `columns` a token.
std::int64_t alive_at_end(const Schedule& schedule, const std::array<std::int64_t, 2>& columns,
                          DType dtype) {
  OpId last{};
  for (std::size_t i = 0; i < schedule.ops.size(); ++i)
    if (schedule.ops[i].origin.phase == Phase::backward &&
        schedule.work(schedule.ops[i]).kernel != Kernel::wait)
      last = OpId(static_cast<std::uint32_t>(i));
  std::int64_t n = 0;
  for (const Buffer& buffer : schedule.buffers)
    n += buffer.kind == BufferKind::transient && buffer.parent == no_buffer &&
         buffer.first_op < last && buffer.last_op >= last && buffer.dtype == dtype &&
         buffer.shape == std::array<Extent, 3>{tokens, columns[0], columns[1]};
  return n;
}

TEST(HeldOutputs, AreKeysAndValuesOfLayersThatAreComputedAgain) {
  const Flags again = {{"recompute", "all"}};
  const Schedule held = schedule_of(test::with(again, {{"engine", "fsdp1_autocast"}}));
  EXPECT_EQ(alive_at_end(held, {kv / 128, 128}, DType::bf16), 2 * 36);
  EXPECT_EQ(alive_at_end(held, {vocabulary, 1}, DType::fp32), 1);
  const Schedule dropped = schedule_of(test::with(again, {{"engine", "fsdp1"}}));
  EXPECT_EQ(alive_at_end(dropped, {kv / 128, 128}, DType::bf16), 0);
}

// What recomputed layers keep: their inputs, and what the last one put out.
std::int64_t inputs_of_layers(const char* engine) {
  const Schedule schedule =
      schedule_of({{"engine", engine}, {"recompute", "all"}, {"reduce_dtype", "fp32"}});
  return memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss)
      .by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)]
      .value;
}

TEST(Autocast, ResidualsAreInFp32) {
  EXPECT_EQ(inputs_of_layers("fsdp1_autocast"), 37 * tokens * h * 4);
  EXPECT_EQ(inputs_of_layers("fsdp1"), 37 * tokens * h * 2);
}

TEST(ReduceBucket, IsKeptByDeepSpeedFromStepToStep) {
  const auto kept = [](const Flags& more) {
    return bytes_at_rest(schedule_of(more), MemoryCategory::communication_buffers);
  };
  for (const char* zero : {"1", "2", "3"})
    EXPECT_EQ(kept({{"engine", "deepspeed"}, {"zero", zero}}), 1'000'000'000) << zero;
  EXPECT_EQ(kept({{"engine", "deepspeed"}, {"reduce_bucket", "1000000"}}), 2'000'000);
  EXPECT_EQ(kept({{"engine", "colossalai"}}), 0);
}

// Gradients of a layer that is larger go through it piece by piece. Stage 2 gathers nothing that it
// would copy.
TEST(ReduceBucket, IsTheMostThatIsCopiedAtOnce) {
  const auto largest = [](const Flags& more) {
    const Schedule schedule =
        schedule_of(test::with({{"engine", "deepspeed"}, {"zero", "2"}}, more));
    std::int64_t bytes = 0;
    for (const Buffer& buffer : schedule.buffers)
      if (buffer.kind == BufferKind::transient &&
          buffer.category == MemoryCategory::communication_buffers)
        bytes = std::max(bytes, buffer.bytes(assumed_bindings(schedule)).value);
    return bytes;
  };
  EXPECT_EQ(largest({{"reduce_bucket", "1000000"}}), 2'000'000);
  EXPECT_EQ(largest({}), 1'000'000'000);  // of the head, which is larger
}

OpId reduction_of(const Schedule& schedule, std::int16_t layer) {
  OpId reduction{};
  for (std::size_t i = 0; i < schedule.ops.size(); ++i)
    if (schedule.work(schedule.ops[i]).kernel == Kernel::reduce_scatter &&
        schedule.ops[i].origin.layer == layer)
      reduction = OpId(static_cast<std::uint32_t>(i));
  return reduction;
}

// Gradients of layers that are there, or held back, when those of one in the middle are reduced.
std::int64_t gradients_in_flight(const Flags& more) {
  const Schedule schedule = schedule_of(test::with({{"engine", "deepspeed"}}, more));
  const OpId reduction = reduction_of(schedule, 18);
  std::int64_t n = 0;
  for (const HeldBack& of : schedule.held_back) {
    const Buffer& buffer = schedule.buffer(of.buffer);
    n += buffer.category == MemoryCategory::gradients && buffer.first_op < reduction &&
         of.until >= reduction && schedule.op(buffer.first_op).origin.layer >= 0;
  }
  return n;
}

// A layer has 193 million elements: a bucket of as many is a layer, and one of more than all never
// full. The head, which is larger, is reduced on its own.
TEST(ReductionsInFlight, OfDeepSpeedAreThreeBuckets) {
  EXPECT_EQ(gradients_in_flight({{"zero", "3"}, {"reduce_bucket", "194000000"}}), 3);
  EXPECT_EQ(gradients_in_flight({{"zero", "3"}, {"reduce_bucket", "1000000"}}), 1);
  EXPECT_EQ(gradients_in_flight({{"zero", "3"}, {"reduce_bucket", "4000000000"}}), 18);
  EXPECT_EQ(gradients_in_flight({{"zero", "2"}}), 0);
}

TEST(ReductionsInFlight, AreInPoolsAndNotAllocated) {
  Schedule schedule = schedule_of({{"engine", "deepspeed"}, {"zero", "3"}});
  const Bindings bindings = assumed_bindings(schedule);
  const Bytes allocated = memory_peak(schedule, bindings, Space::device).peak;
  const Bytes pooled = pooled_peak(schedule, bindings, Space::device);
  schedule.held_back.clear();
  EXPECT_EQ(memory_peak(schedule, bindings, Space::device).peak, allocated);
  EXPECT_LT(pooled_peak(schedule, bindings, Space::device), pooled);
}

// Whether lm_head is gathered while gradients of a layer in the middle are reduced.
bool has_head(const Flags& more) {
  const Schedule schedule = schedule_of(test::with({{"engine", "deepspeed"}}, more));
  const OpId reduction = reduction_of(schedule, 18);
  return std::ranges::any_of(schedule.buffers, [&](const Buffer& buffer) {
    return buffer.category == MemoryCategory::gathered_parameters && is_alive(buffer, reduction) &&
           buffer.shape[0].code >= h * vocabulary;
  });
}

TEST(ReadHead, StaysGatheredWhereLigersLossReadsIt) {
  const Flags liger = {{"zero", "3"}, {"compile_loss", "true"}, {"loss_chunk", "1024"}};
  EXPECT_TRUE(has_head(liger));
  EXPECT_FALSE(has_head(test::with(liger, {{"compile_loss", "false"}})));
}

// Whether gradients of gate and up lie where these were.
bool writes_over_gate(const Flags& more) {
  const Schedule schedule = schedule_of(test::with({{"engine", "accelerate"}}, more));
  const auto op = std::ranges::find_if(schedule.ops, [&](const Op& of) {
    return schedule.work(of).kernel == Kernel::silu_multiply_backward;
  });
  return std::ranges::equal(schedule.inputs(*op).subspan(1), schedule.outputs(*op));
}

TEST(Activation, OfLigerLeavesGradientsWhereItReads) {
  const Flags compiled = {{"compile", "true"}, {"loss_chunk", "1024"}};
  EXPECT_FALSE(writes_over_gate(compiled));
  EXPECT_TRUE(writes_over_gate(test::with(compiled, {{"compile_loss", "true"}})));
}

// A replica's buckets are copies of all gradients; sums of a split optimizer are reduced as they
// are, behind the last micro-batch.
TEST(Buckets, OfNanotronAreThereWhereOptimizerStateIsWhole) {
  const auto sums = [](const char* zero) {
    const Schedule schedule = schedule_of({{"engine", "nanotron"}, {"zero", zero}});
    const auto n = std::ranges::count_if(schedule.ops, [&](const Op& op) {
      return op.origin.phase == Phase::reduce && schedule.work(op).kernel == Kernel::all_reduce;
    });
    return std::pair(bytes_at_rest(schedule, MemoryCategory::communication_buffers), n);
  };
  const auto [whole, n_behind_whole] = sums("0");
  const auto [split, n_behind_split] = sums("1");
  EXPECT_GT(whole, 2 * 36 * shapes);
  EXPECT_EQ(split, 0);
  EXPECT_EQ(n_behind_whole, 0);
  EXPECT_GE(n_behind_split, 36);
}

}  // namespace
}  // namespace xt
