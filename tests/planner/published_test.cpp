// Published figures of XTuner V1 against predictions that were not fitted to them; README quotes
// these. The authors could see the figures.

#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"

namespace xt {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

Plan plan_of(const std::string& run, const Flags& flags = {}) {
  Request request(std::filesystem::path(XT_DATA_ROOT) / "configs" / "runs" / (run + ".yaml"),
                  flags);
  return resolve(request, Catalogue{XT_DATA_ROOT});
}

double tokens_per_device_s(const Plan& plan) {
  return xt::tokens_per_device_s(plan, estimate(plan));
}

TEST(Published, Qwen3On256H800IsWithin8Percent) {
  EXPECT_NEAR(tokens_per_device_s(plan_of("qwen3_235b_a22b_h800")) / 2000, 1, 0.08);
}

// The aim is 12 %.
TEST(Published, TheSameWithFp8ProductsIsWithin15Percent) {
  EXPECT_NEAR(
      tokens_per_device_s(plan_of("qwen3_235b_a22b_h800", {{"fp8_products", "true"}})) / 2450, 1,
      0.15);
}

TEST(Published, Qwen3On256PackagesOfA3IsWithin12Percent) {
  EXPECT_NEAR(tokens_per_device_s(plan_of("qwen3_235b_a22b_a3")) / 2086, 1, 0.12);
}

// Packs of 64k tokens without sequence parallelism fit an H800 only with swap and chunked loss.
TEST(Published, LongPacksFitAnH800OnlyWithSwapAndChunkedLoss) {
  EXPECT_TRUE(estimate(plan_of("qwen3_235b_a22b_h800")).fits);
  for (const Flags& flags : {Flags{{"swap", "none"}}, Flags{{"loss_chunk", "none"}}}) {
    const Estimate answer = estimate(plan_of("qwen3_235b_a22b_h800", flags));
    EXPECT_FALSE(answer.fits) << flags.front().first;
  }
}

// The rate over 256 ranks was seen in training; alone, rings over nodes should reach that of two.
TEST(Published, ThePredictionForH800HingesOnTheRateOfGathersBetweenManyNodes) {
  Plan plan = plan_of("qwen3_235b_a22b_h800");
  const double before = tokens_per_device_s(plan);
  std::erase_if(plan.profile.collectives, [](const CollectiveEfficiency& of) {
    return of.scope == Scope::network && of.ranks > 16 &&
           (of.kernel == Kernel::all_gather || of.kernel == Kernel::reduce_scatter);
  });
  EXPECT_NEAR(tokens_per_device_s(plan) / before, 1.33, 0.07);
}

}  // namespace
}  // namespace xt
