// Rows of experts gathered, activated, weighted and summed by kernels of their own.

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// Of Qwen3-30B-A3B.
constexpr std::int64_t tokens = 4096, rows = 8 * tokens, h = 2048, f = 768, bf16 = 2;

Estimate estimate_with(const char* fused) {
  const Flags flags = {{"model", "qwen3_30b_a3b"},
                       {"machine", "h100_sxm"},
                       {"devices", "16"},
                       {"engine", "torchtitan"},
                       {"pack_length", std::to_string(tokens)},
                       {"recompute", "none"},
                       {"fused_experts", fused}};
  return estimate(test::plan_of(flags));
}

// Bytes of the passes of layer 1 in `part`.
std::int64_t passed(const Schedule& schedule, Phase phase, std::string_view part) {
  std::int64_t bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel == Kernel::cast && op.origin.layer == 1 && op.origin.phase == phase &&
        schedule.parts[op.origin.part] == part)
      bytes += work.extents[0].code * work.extents[1].code;
  }
  return bytes;
}

TEST(UnfusedExperts, RowsAreGatheredOnceMoreWeightedAndPutInOrder) {
  const Schedule schedule = estimate_with("false").schedule;
  constexpr std::int64_t once = rows * h * bf16;
  EXPECT_EQ(passed(schedule, Phase::forward, "dispatch"), 2 * once);
  EXPECT_EQ(passed(schedule, Phase::forward, "combine"), (2 + 2) * once);
  // Gathered, added to zeros, times weights; times rows and summed.
  EXPECT_EQ(passed(schedule, Phase::backward, "combine"), (2 + 4 + 2 + 4) * once);
  EXPECT_EQ(passed(schedule, Phase::backward, "dispatch"), 4 * once);
  EXPECT_EQ(passed(schedule, Phase::backward, "experts.activation"), 4 * rows * f * bf16);
}

TEST(UnfusedExperts, ProductsAreThoseOfFusedOnes) {
  const auto products = [](const Schedule& schedule) {
    std::vector<Work> works;
    for (const Op& op : schedule.ops)
      if (kernel_class(schedule.work(op).kernel) == KernelClass::grouped_matrix)
        works.push_back(schedule.work(op));
    return works;
  };
  EXPECT_EQ(products(estimate_with("false").schedule), products(estimate_with("true").schedule));
}

TEST(UnfusedExperts, CostTimeAndMemory) {
  const Estimate fused = estimate_with("true"), unfused = estimate_with("false");
  EXPECT_GT(unfused.timeline.end, fused.timeline.end);
  EXPECT_GT(unfused.timeline.device_memory.peak, fused.timeline.device_memory.peak);
}

}  // namespace
}  // namespace xt
