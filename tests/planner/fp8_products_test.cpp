// Linear layers and experts in fp8: what is multiplied, gathered and kept.

#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

Estimate estimate_of(bool is_fp8) {
  return estimate(test::plan_of({{"model", "qwen3_30b_a3b"},
                                 {"machine", "h800_sxm"},
                                 {"devices", "16"},
                                 {"engine", "xtuner_v1"},
                                 {"pack_length", "32768"},
                                 {"sample_length", "4096"},
                                 {"loss_chunk", "1024"},
                                 {"fp8_products", is_fp8 ? "true" : "false"}}));
}

bool is_product(const Work& work) {
  const KernelClass of = kernel_class(work.kernel);
  return of == KernelClass::matrix || of == KernelClass::grouped_matrix;
}

TEST(Fp8Products, AreAllButThoseOfRouterAndHead) {
  const Schedule schedule = estimate_of(true).schedule;
  for (const Op& op : schedule.ops) {
    if (!is_product(schedule.work(op))) continue;
    const std::string& part = schedule.parts[op.origin.part];
    const bool stays = part == "router" || part == "lm_head";
    EXPECT_EQ(schedule.work(op).dtype, stays ? DType::bf16 : DType::fp8) << part;
  }
}

double gathered_bytes(const Schedule& schedule, std::int16_t layer) {
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel == Kernel::all_gather && op.origin.layer == layer &&
        op.origin.phase == Phase::forward)
      bytes += static_cast<double>(work.extents[0].code * width(work.dtype));
  }
  return bytes;
}

TEST(Fp8Products, AreGatheredInOneByteAndReducedInTwo) {
  const double experts = 128 * 3.0 * 2048 * 768, attention = 2048.0 * 128 * (2 * 32 + 2 * 4),
               rest = 2048.0 * 128 + 2 * 2048 + 2 * 128;
  const Schedule fp8 = estimate_of(true).schedule, bf16 = estimate_of(false).schedule;
  EXPECT_NEAR(gathered_bytes(fp8, 3) / (experts + attention + 2 * rest), 1, 1e-4);
  EXPECT_NEAR(gathered_bytes(bf16, 3) / (2 * (experts + attention + rest)), 1, 1e-4);
  const auto reduced = [](const Schedule& schedule) {
    std::int64_t elements = 0;
    for (const Op& op : schedule.ops)
      if (schedule.work(op).kernel == Kernel::reduce_scatter)
        elements += schedule.work(op).extents[0].code;
    return elements;
  };
  EXPECT_EQ(reduced(fp8), reduced(bf16));
}

TEST(Fp8Products, CountTheSameFlopsInLessTime) {
  const Estimate fp8 = estimate_of(true), bf16 = estimate_of(false);
  EXPECT_EQ(fp8.model_flops, bf16.model_flops);
  EXPECT_EQ(fp8.hardware_flops, bf16.hardware_flops);
  EXPECT_EQ(fp8.peak, bf16.peak);  // MFU divides by the bf16 peak
  EXPECT_LT(fp8.account.step, bf16.account.step);
}

}  // namespace
}  // namespace xt
