// What a framework executes op by op around its products: sums of gradients, scaled rotary angles.

#include <gtest/gtest.h>

#include "planner/lower/lower.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t tokens = 8192;

Schedule schedule_of(const Flags& flags) {
  const Plan plan = test::plan_of(test::with({{"machine", "h100_sxm"},
                                              {"devices", "8"},
                                              {"engine", "torchtitan"},
                                              {"pack_length", std::to_string(tokens)},
                                              {"loss_chunk", "none"},
                                              {"recompute", "none"}},
                                             flags));
  return lower(graph_of(plan), plan.strategy);
}

// Elements of gradients that layer 1 adds to others behind products: each is read twice and written
// once, in 16 bits.
std::int64_t added(const Schedule& schedule) {
  std::int64_t bytes = 0;
  Kernel before{};
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (op.origin.layer == 1 && op.origin.phase == Phase::backward && work.kernel == Kernel::cast &&
        before == Kernel::matmul_input_backward)
      bytes += work.extents[0].code * work.extents[1].code;
    before = work.kernel;
  }
  return bytes / (3 * 2);
}

std::int64_t added_by_eager_kernels(const Flags& flags) {
  return added(schedule_of(test::with(flags, {{"compile", "false"}}))) - added(schedule_of(flags));
}

// Products read one value as queries, keys and values, and one as gate and up.
TEST(EagerKernels, GradientsOfWhatSeveralProductsReadAreSummedOneByOne) {
  constexpr std::int64_t width = 4096;
  EXPECT_EQ(added_by_eager_kernels({{"model", "llama3_1_8b"}}), 3 * tokens * width);
  EXPECT_EQ(added_by_eager_kernels({{"model", "qwen3_8b"}}), 3 * tokens * width);
}

// One weight makes all three of MPT, and one its ffn's first product.
TEST(EagerKernels, ProductsOfOneWeightLeaveNothingToSum) {
  EXPECT_EQ(added_by_eager_kernels({{"model", "mpt_7b"}, {"pack_length", "2048"}}), 0);
}

// Six tensors of a head's size are read and six written on their way, five and five back; the
// table's cosines and sines are scaled in fp32 and narrowed.
TEST(ScaledRotary, TurnsOpByOpOnMegatron) {
  constexpr std::int64_t size = 64, heads = 64 + 8, bf16 = 2, fp32 = 4;
  const auto passed = [](Phase phase, const char* engine) {
    const Schedule schedule =
        schedule_of({{"model", "gpt_oss_120b"}, {"engine", engine}, {"expert_parallel", "8"}});
    std::int64_t bytes = 0;
    for (const Op& op : schedule.ops)
      if (op.origin.layer == 1 && op.origin.phase == phase &&
          schedule.parts[op.origin.part] == "rope" && schedule.work(op).kernel == Kernel::cast)
        bytes += schedule.work(op).extents[0].code * schedule.work(op).extents[1].code;
    return bytes;
  };
  constexpr std::int64_t tables = 2 * tokens * size * 2 * (5 * fp32 + bf16);
  EXPECT_EQ(passed(Phase::forward, "megatron"), tokens * heads * size * 12 * bf16 + tables);
  EXPECT_EQ(passed(Phase::backward, "megatron"), tokens * heads * size * 10 * bf16);
  EXPECT_EQ(passed(Phase::forward, "xtuner_v1"), 0);
}

}  // namespace
}  // namespace xt
