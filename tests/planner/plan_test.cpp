#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/document/writer.h"
#include "costmodel/hardware/overlay.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"
#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "planner/plan/automatic.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::plan_of;
using test::with;

const Flags large = {{"model", "qwen3_30b_a3b"}, {"machine", "h800_sxm"},
                     {"devices", "64"},          {"engine", "xtuner_v1"},
                     {"pack_length", "32768"},   {"sample_length", "4096"}};

MemoryPeak peak_of(const Plan& plan) { return estimate(plan).timeline.device_memory; }

TEST(Plan, SamplesAreAsLongAsThePackUnlessSaid) {
  const Plan plan = plan_of({{"model", "tiny_moe"}, {"machine", "h800_sxm"}});
  EXPECT_EQ(plan.strategy.pack_length, 4096);
  EXPECT_EQ(plan.strategy.sample_length, 4096);
}

TEST(Plan, ADeviceOfTwoDiesIsTwoRanks) {
  EXPECT_EQ(
      plan_of({{"model", "tiny_moe"}, {"machine", "ascend_a3"}, {"devices", "4"}}).strategy.ranks,
      8);
}

TEST(Plan, XtunerKeepsTheLastRoutedLayerAndRecomputesAllDenseOnes) {
  EXPECT_EQ(plan_of(large).strategy.recompute_layers, 47);
  EXPECT_EQ(plan_of({{"model", "qwen3_8b"}, {"machine", "h800_sxm"}, {"engine", "xtuner_v1"}})
                .strategy.recompute_layers,
            36);
}

// Answers print it so, and are asked again.
TEST(Plan, AChunkOfAllTokensIsTheWholeLoss) {
  const Flags whole = {
      {"model", "qwen3_8b"}, {"machine", "h100_sxm"}, {"devices", "8"}, {"engine", "megatron"}};
  const Plan plan = plan_of(whole);
  for (const char* chunk : {"4096", "5000"})
    EXPECT_EQ(plan_of(with(whole, {{"loss_chunk", chunk}})).strategy, plan.strategy) << chunk;
  EXPECT_THROW(plan_of(with(whole, {{"loss_chunk", "4095"}})), InputError);
}

TEST(AutomaticChunk, IsTheLargestAtWhichTheLossDoesNotSetThePeak) {
  const Plan plan = plan_of(with(large, {{"loss_chunk", "auto"}}));
  const auto phase_with = [&](std::int64_t chunk) {
    Plan other = plan;
    other.strategy.loss_chunk = chunk;
    const Estimate answer = estimate(other);
    return answer.schedule.op(answer.timeline.device_memory.op).origin.phase;
  };
  ASSERT_LT(plan.strategy.loss_chunk, plan.strategy.pack_length);
  EXPECT_NE(phase_with(plan.strategy.loss_chunk), Phase::loss);
  EXPECT_EQ(phase_with(plan.strategy.loss_chunk * 2), Phase::loss);
}

TEST(AutomaticChunk, IsTheSmallestPeakWhereTheLossAlwaysSetsIt) {
  // one layer and a large vocabulary: the loss is the peak whatever its chunk
  const Plan plan = plan_of({{"model", "qwen3_0_6b"},
                             {"machine", "h800_sxm"},
                             {"devices", "8"},
                             {"pack_length", "1024"},
                             {"loss_chunk", "auto"}});
  for (const std::int64_t chunk : {512, 1024}) {
    Plan other = plan;
    other.strategy.loss_chunk = chunk;
    EXPECT_LE(peak_of(plan).peak, peak_of(other).peak) << chunk;
  }
}

TEST(AutomaticSwap, IsTheFewestLayersThatFit) {
  const Plan plan = plan_of({{"model", "qwen3_235b_a22b"},
                             {"machine", "h800_sxm"},
                             {"devices", "256"},
                             {"engine", "xtuner_v1"},
                             {"pack_length", "65536"},
                             {"sample_length", "4096"},
                             {"loss_chunk", "1024"},
                             {"swap", "auto"}});
  ASSERT_GT(plan.strategy.swap_layers, 0);
  EXPECT_TRUE(estimate(plan).fits());
  Plan fewer = plan;
  --fewer.strategy.swap_layers;
  EXPECT_FALSE(estimate(fewer).fits());
}

TEST(Estimate, ModelFlopsOfQwen3AgreeWithThePublishedRate) {
  // 1540.68 tokens/s/GPU are printed as 228.09 TFLOP/s at 4096 tokens: 148.05 GFLOP per token.
  // Source: XTuner documentation, Megatron benchmark page of Qwen3-235B-A22B
  const Plan plan = plan_of({{"model", "qwen3_235b_a22b"},
                             {"machine", "h800_sxm"},
                             {"devices", "256"},
                             {"engine", "xtuner_v1"},
                             {"pack_length", "4096"}});
  const Estimate answer = estimate(plan);
  EXPECT_NEAR(answer.model_flops.value / 4096 * 1e-9, 148.05, 0.15);
}

// Qwen3-8B, 8 GPUs, packs of 4096, chunks of 1024: the log shows 18.02 GiB allocated from step 2
// on. Source: XTuner documentation, get_started/sft, 2025-08-29. Not fitted; the run before chunk
// loss was rewritten, so that 5 % is what can be asked.
TEST(Estimate, MemoryOfAPublishedXtunerRun) {
  const Plan plan = plan_of({{"model", "qwen3_8b"},
                             {"machine", "h800_sxm"},
                             {"devices", "8"},
                             {"engine", "xtuner_v1"},
                             {"pack_length", "4096"},
                             {"loss_chunk", "1024"}});
  const double gib = static_cast<double>(peak_of(plan).peak.value) / (1 << 30);
  EXPECT_NEAR(gib, 18.02, 0.05 * 18.02);
}

TEST(Estimate, JsonHoldsEveryPromisedKey) {
  const Plan plan = plan_of({{"model", "tiny_moe"}, {"machine", "h800_sxm"}});
  const Json json = estimate_json(plan, estimate(plan));
  for (const char* key : {"schema", "step_time_s", "tokens_per_device_s", "model_flops", "mfu",
                          "hfu", "peak_memory_bytes", "reserved_memory_bytes", "peak_phase",
                          "memory_breakdown_bytes", "host_memory_bytes", "device_bytes", "fits",
                          "fits_p95", "verdict", "communication", "time_breakdown_s"})
    EXPECT_NE(json.find(key), nullptr) << key;
  double sum = 0;
  for (const JsonMember& part : json.at("time_breakdown_s").members())
    sum += part.value.as_double();
  EXPECT_NEAR(sum, json.at("step_time_s").as_double(), 1e-9);
  std::int64_t bytes = 0;
  for (const JsonMember& part : json.at("memory_breakdown_bytes").members())
    bytes += part.value.as_int();
  EXPECT_EQ(bytes, json.at("peak_memory_bytes").as_int());
}

TEST(Estimate, CarriesTheErrorOfTheCalibrationThatItUses) {
  Overlay overlay =
      overlay_of(Catalogue{XT_DATA_ROOT}.machine("h800_sxm"), {}, "fitted to nothing");
  overlay.residual_ratio = 0.034;
  const auto path = std::filesystem::temp_directory_path() / "xt_plan_test_overlay.yaml";
  write_file(path, to_yaml(write(overlay)), Overwrite::allow);
  const Flags flags = {{"model", "tiny_moe"}, {"machine", "h800_sxm"}};
  const Plan plain = plan_of(flags),
             calibrated = plan_of(with(flags, {{"overlay", path.string()}}));
  std::filesystem::remove(path);
  EXPECT_THAT(estimate_text(calibrated, estimate(calibrated), Style{}),
              testing::HasSubstr("from the error of the calibration"));
  EXPECT_THAT(estimate_text(plain, estimate(plain), Style{}),
              testing::HasSubstr("from the grades of the numbers"));
  EXPECT_EQ(
      estimate_json(calibrated, estimate(calibrated)).at("calibration_error_ratio").as_double(),
      0.034);
}

TEST(Estimate, NotFittingSaysByHowMuchAndWhere) {
  const Plan plan = plan_of({{"model", "qwen3_32b"}, {"machine", "h800_sxm"}});
  const Estimate answer = estimate(plan);
  EXPECT_FALSE(answer.fits());
  EXPECT_THAT(estimate_text(plan, answer, Style{}),
              testing::ContainsRegex("does not fit by ~[0-9.]+ GiB: .* the peak is at "));
}

// A stored answer says what was asked.
TEST(EstimateJson, NamesEveryChoiceThatChangesTheStep) {
  const Flags plain = {
      {"model", "qwen3_8b"}, {"machine", "h100_sxm"}, {"devices", "8"}, {"engine", "torchtitan"}};
  const auto strategy = [](const Flags& flags) {
    const Plan plan = test::plan_of(flags);
    return estimate_json(plan, estimate(plan)).at("strategy");
  };
  const Json as_it_is = strategy(plain);
  for (const auto& flag : Flags{{"compile", "false"},
                                {"reduce_dtype", "bf16"},
                                {"attention_kernel", "flash2"},
                                {"recompute_ops", "norms+activations"}})
    EXPECT_FALSE(strategy(test::with(plain, {flag})) == as_it_is) << flag.first;
}

TEST(EstimateText, NamesChoicesThatAreNotTheEngines) {
  const Plan plan = test::plan_of({{"model", "qwen3_8b"},
                                   {"machine", "h100_sxm"},
                                   {"devices", "8"},
                                   {"engine", "torchtitan"},
                                   {"compile", "false"},
                                   {"reduce_dtype", "bf16"},
                                   {"recompute_ops", "norms"}});
  EXPECT_THAT(estimate_text(plan, estimate(plan), Style{}),
              testing::ContainsRegex("gradients reduced in bf16, op by op, .* layers of norms, "));
}

}  // namespace
}  // namespace xt
