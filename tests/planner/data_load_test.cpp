// Samples of different lengths: what waiting for the longest costs, and what grouping packs saves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

const Flags mixed = {{"model", "qwen3_8b"},
                     {"machine", "h800_sxm"},
                     {"devices", "64"},
                     {"engine", "xtuner_v1"},
                     {"pack_length", "32768"},
                     {"loss_chunk", "1024"},
                     {"sample_length", "lognormal(1500, 1.3)"}};

Plan plan_with(const Flags& more) { return test::plan_of(test::with(mixed, more)); }

TEST(DataLoad, GroupingPacksByLengthSavesMostOfTheWaiting) {
  const Estimate answer = estimate(plan_with({}));
  const Seconds grouped = answer.data->grouped - answer.data->balanced;
  const Seconds plain = answer.data->plain - answer.data->balanced;
  EXPECT_GT(grouped, Seconds(0));
  EXPECT_LT(grouped, 0.5 * plain);
}

TEST(DataLoad, TheStepIsThatOfTheChosenOrder) {
  const Estimate grouped = estimate(plan_with({{"group_by_length", "true"}}));
  const Estimate plain = estimate(plan_with({{"group_by_length", "false"}}));
  EXPECT_NEAR(grouped.account.step.value, grouped.data->grouped.value, 1e-6);
  EXPECT_NEAR(plain.account.step.value, plain.data->plain.value, 1e-6);
}

TEST(DataLoad, FlopsAreThoseOfTheMeanPackWhateverTheOrder) {
  const Estimate grouped = estimate(plan_with({{"group_by_length", "true"}}));
  const Estimate plain = estimate(plan_with({{"group_by_length", "false"}}));
  EXPECT_EQ(grouped.model_flops, plain.model_flops);
  EXPECT_GT(grouped.mfu(), plain.mfu());
}

TEST(DataLoad, EqualLengthsHaveNone) {
  EXPECT_FALSE(estimate(plan_with({{"sample_length", "2048"}})).data);
}

TEST(DataLoad, SamplesThatDoNotDivideAPackLeaveItPartlyEmpty) {
  const Plan plan = plan_with({{"sample_length", "9000"}, {"pack_length", "16384"}});
  ASSERT_TRUE(plan.data.load);
  EXPECT_NEAR(plan.data.load->fill_ratio, 9000.0 / 16384, 0.01);
  const Plan hard =
      plan_with({{"sample_length", "9000"}, {"pack_length", "16384"}, {"pack_level", "hard"}});
  EXPECT_EQ(hard.data.load->fill_ratio, 1);
  // Padding computes, but does not count.
  EXPECT_NEAR(estimate(plan).model_flops / estimate(hard).model_flops, 9000.0 / 16384, 0.05);
}

// xt-run cuts documents where a pack ends, unless it is told to leave gaps.
TEST(DataLoad, OfWhatXtRunCutsHasNoGaps) {
  const Flags executed = {
      {"engine", "xt_run"}, {"sample_length", "9000"}, {"pack_length", "16384"}};
  const Plan cut = plan_with(executed);
  EXPECT_EQ(cut.data.pack_level, PackLevel::hard);
  EXPECT_FALSE(cut.data.load);
  const Plan whole = plan_with(test::with(executed, {{"pack_level", "soft"}}));
  ASSERT_TRUE(whole.data.load);
  EXPECT_NEAR(whole.data.load->fill_ratio, 9000.0 / 16384, 0.01);
}

TEST(DataLoad, SaysHowMuchOfLongSamplesIsCut) {
  const Plan plan = plan_with({{"sample_length", "lognormal(65536, 0.001)"}});
  EXPECT_NEAR(plan.data.load->cut_ratio, 0.5, 0.01);
  EXPECT_NE(estimate_text(plan, estimate(plan), Style{}).find("are cut: ~50"), std::string::npos);
  EXPECT_EQ(plan_with({{"sample_length", "lognormal(100, 0.001)"}}).data.load->cut_ratio, 0);
}

TEST(DataLoad, OfHugeRunsIsDrawnFromFewerMicroSteps) {
  const DataLoad load = *plan_with({{"devices", "4096"},
                                    {"pack_length", "131072"},
                                    {"gradient_accumulation", "64"},
                                    {"sample_length", "lognormal(3000, 1)"}})
                             .data.load;
  EXPECT_LE(load.n_packs, 10 * 4096);
}

TEST(DataLoad, OfMoreSamplesThanMemoryHoldsIsRefused) {
  const Flags huge = {{"devices", "1000000"}, {"sample_length", "lognormal(1000, 1)"}};
  EXPECT_THAT(test::refusal_by([&] { return plan_with(huge); }),
              testing::HasSubstr("samples, of which 5e+07 can be drawn"));
}

TEST(DataLoad, MorePacksInLockStepAreMoreAlike) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"group_by_length", "false"}};
  Flags together = flags;
  together.emplace_back("intra_layer_micro_batches", "4");
  const DataLoad one = *plan_with(flags).data.load, four = *plan_with(together).data.load;
  EXPECT_LT(four.largest_plain / four.mean, one.largest_plain / one.mean);
}

TEST(DataLoad, OnlySampleTokensCountForTheThroughput) {
  const Plan plan = plan_with({});
  const Estimate answer = estimate(plan);
  const double slots = static_cast<double>(plan.strategy.tokens_per_step()) /
                       static_cast<double>(plan.devices) / answer.account.step.value;
  EXPECT_LT(plan.data.load->fill_ratio, 1);
  EXPECT_DOUBLE_EQ(tokens_per_device_s(plan, answer), slots * plan.data.load->fill_ratio);
}

TEST(DataLoad, AnotherSeedChangesTheBubbleByLittle) {
  const Estimate one = estimate(plan_with({{"seed", "1"}})),
                 two = estimate(plan_with({{"seed", "2"}}));
  EXPECT_NEAR(one.data->plain / two.data->plain, 1, 0.05);
}

}  // namespace
}  // namespace xt
