// Published rows: what is read, which become plans, and what is said of errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/validate/model_config.h"
#include "tests/planner/published_rows.h"

namespace xt {
namespace {

using test::outcome_of;
using test::outcome_too_large;
using test::row_of;
using test::with_memory;
using test::with_oom;
using test::with_tokens;

const std::filesystem::path published = std::filesystem::path(XT_DATA_ROOT) / "tests" / "published";

std::vector<PublishedRow> all_rows() {
  const std::vector<std::filesystem::path> paths = {published / "published.json",
                                                    published / "simumax_b200.json"};
  return read_published(paths);
}

PublishedRow row_named(const std::string& id) {
  const std::vector<PublishedRow> rows = all_rows();
  return *std::ranges::find(rows, id, &PublishedRow::id);
}

Plan plan_of_row(const PublishedRow& row) {
  const RowPlan plan = plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT}));
  EXPECT_EQ(plan.reason + plan.detail, "");
  return plan.plan.value();
}

std::string reason_of(const PublishedRow& row) {
  return plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT})).reason;
}

// A row that is priced, from which tests take what they ask about.
PublishedRow xtuner_row() { return row_named("xtuner-v1-67907ff0"); }

TEST(Statistics, PercentilesLieLinearlyBetweenNeighbours) {
  EXPECT_EQ(percentile({}, 0.5), std::nullopt);
  EXPECT_DOUBLE_EQ(*percentile({7}, 0.9), 7);
  EXPECT_DOUBLE_EQ(*percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(*percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(*percentile({4, 1, 3, 2}, 1), 4);
  // 0.9 · (5 - 1) = 3.6: six tenths of the way from the fourth to the fifth
  EXPECT_DOUBLE_EQ(*percentile({10, 20, 30, 40, 50}, 0.9), 46);
}

TEST(Statistics, BiasKeepsTheSignThatTheMedianLoses) {
  const ErrorSummary of = summary_of({-0.3, -0.1, 0.2});
  EXPECT_EQ(of.n, 3u);
  EXPECT_DOUBLE_EQ(*of.median_abs, 0.2);
  EXPECT_DOUBLE_EQ(*of.bias, -0.1);
  EXPECT_EQ(summary_of({}).median_abs, std::nullopt);
}

TEST(Score, APredictionOfHalfTheTokensTakesTwiceTheTime) {
  const Validation of = score({with_tokens(row_of("a-1"), 1000)}, {outcome_of(500)});
  EXPECT_DOUBLE_EQ(*of.rows[0].time_error, 1);
  EXPECT_EQ(of.rows[0].memory_error, std::nullopt);
}

// 4 sequences of 256 tokens on 2 devices in half a second: 1024 tokens per device and second.
TEST(Score, AStepsTimeAndBatchAreAThroughput) {
  PublishedRow row = row_of("a-1");
  row.measured.step_time_s = 0.5;
  row.global_batch_size = 4;
  row.seq_len = 256;
  row.devices = 2;
  row.usable_for = {Use::time};
  EXPECT_DOUBLE_EQ(*score({row}, {outcome_of(512)}).rows[0].time_error, 1);
}

TEST(Score, WhatARowIsNotUsableForHasNoError) {
  PublishedRow row = with_memory(with_tokens(row_of("a-1"), 1000), 100, MemoryKind::allocated);
  row.usable_for = {Use::memory};
  const Validation of = score({row}, {outcome_of(500)});
  EXPECT_EQ(of.rows[0].time_error, std::nullopt);
  EXPECT_EQ(of.rows[0].null_model_time_error, std::nullopt);
  EXPECT_TRUE(of.rows[0].memory_error);
}

TEST(Score, MemoryIsComparedInTheKindThatWasMeasured) {
  const auto error = [](std::int64_t bytes, std::optional<MemoryKind> kind) {
    return *score({with_memory(row_of("a-1"), bytes, kind)}, {outcome_of(1)}).rows[0].memory_error;
  };
  EXPECT_DOUBLE_EQ(error(80, MemoryKind::allocated), 0.25);
  EXPECT_DOUBLE_EQ(error(80, MemoryKind::reserved), 0.5);
  EXPECT_DOUBLE_EQ(error(160, MemoryKind::device), -0.125);
}

// Of no stated kind: between 100 allocated and 120 reserved there is no error.
TEST(Score, MemoryOfNoStatedKindIsHeldAgainstAnInterval) {
  const std::vector<PublishedRow> rows = {with_memory(row_of("a-1"), 110, std::nullopt),
                                          with_memory(row_of("a-2"), 80, std::nullopt),
                                          with_memory(row_of("a-3"), 160, std::nullopt),
                                          with_memory(row_of("a-4"), 100, MemoryKind::allocated)};
  const Validation of = score(rows, std::vector<RowOutcome>(4, outcome_of(1)));
  EXPECT_DOUBLE_EQ(*of.rows[0].memory_error, 0);
  EXPECT_DOUBLE_EQ(*of.rows[1].memory_error, 0.25);
  EXPECT_DOUBLE_EQ(*of.rows[2].memory_error, -0.25);
  EXPECT_EQ(of.total.n_open_memory, 3u);
}

// Rates of executed flops: 1000 · 2 = 2000, 4000 · 1 = 4000, 1000 · 3 = 3000. Without the first,
// the median is 3500; without the second 2500; without the third 3000.
TEST(Score, TheNullModelIsTheMedianRateOfTheOtherRows) {
  const std::vector<PublishedRow> rows = {with_tokens(row_of("a-1"), 1000),
                                          with_tokens(row_of("a-2"), 4000),
                                          with_tokens(row_of("b-1"), 1000)};
  const Validation of = score(rows, {outcome_of(1, 2), outcome_of(1, 1), outcome_of(1, 3)});
  EXPECT_DOUBLE_EQ(*of.rows[0].null_model_time_error, 2000.0 / 3500 - 1);
  EXPECT_DOUBLE_EQ(*of.rows[1].null_model_time_error, 4000.0 / 2500 - 1);
  EXPECT_DOUBLE_EQ(*of.rows[2].null_model_time_error, 0);
}

TEST(Score, RowsOfOtherStrataDoNotInformTheNullModel) {
  PublishedRow in_fp8 = with_tokens(row_of("a-2"), 4000), on_a100 = with_tokens(row_of("a-3"), 1);
  in_fp8.precision = "fp8_mx";
  on_a100.machine = "a100_80g_sxm";
  PublishedRow routed = with_tokens(row_of("a-4"), 1);
  routed.model.num_experts = 8;
  const Validation of = score({with_tokens(row_of("a-1"), 1000), in_fp8, on_a100, routed},
                              std::vector<RowOutcome>(4, outcome_of(1)));
  for (const RowScore& row : of.rows) EXPECT_EQ(row.null_model_time_error, std::nullopt);
  EXPECT_EQ(of.total.null_model_time.n, 0u);
}

TEST(Score, OutOfMemoryIsCalledMissedOrCalledForNothing) {
  const std::vector<PublishedRow> rows = {with_oom(row_of("a-1")), with_oom(row_of("a-2")),
                                          with_oom(row_of("a-3")), with_tokens(row_of("a-4"), 1),
                                          with_tokens(row_of("a-5"), 1)};
  const Validation of =
      score(rows, {outcome_too_large(), outcome_of(1), RowOutcome{{}, "model mpt"},
                   outcome_too_large(), outcome_of(1)});
  EXPECT_EQ(of.oom.n_called, 1u);
  EXPECT_EQ(of.oom.n_missed, 1u);
  EXPECT_EQ(of.oom.n_fitting, 2u);
  EXPECT_EQ(of.oom.n_false, 1u);
}

TEST(Score, GroupsCountTheirRowsAndReasonsAreOrderedByRows) {
  const std::vector<PublishedRow> rows = {row_of("a-b-1"), row_of("a-b-2"), row_of("c-1"),
                                          row_of("c-2")};
  const RowOutcome mpt = {{}, "model mpt"}, bloom = {{}, "model bloom"};
  const Validation of = score(rows, {bloom, outcome_of(1), mpt, mpt});
  ASSERT_EQ(of.sources.size(), 2u);
  EXPECT_EQ(of.sources[0].name, std::vector<std::string>{"a-b"});
  EXPECT_EQ(of.sources[0].n_unsupported, 1u);
  EXPECT_EQ(of.strata[0].name, (std::vector<std::string>{"h100_sxm", "fsdp2", "dense"}));
  EXPECT_EQ(of.total.n_unsupported, 3u);
  ASSERT_EQ(of.unsupported.size(), 2u);
  EXPECT_EQ(of.unsupported[0], (std::pair<std::string, std::size_t>("model mpt", 2)));
}

TEST(RowPlan, APackIsAMicroBatchAndGradientsAccumulateToTheBatch) {
  PublishedRow row = xtuner_row();
  row.framework = "some FSDP2";
  row.offload.reset();
  row.seq_len = 4096;
  row.micro_batch_size = 2;
  row.global_batch_size = 2048;
  const Strategy s = plan_of_row(row).strategy;
  EXPECT_EQ(s.pack_length, 8192);
  EXPECT_EQ(s.sample_length, 4096);
  EXPECT_EQ(s.gradient_accumulation, 4);
  EXPECT_EQ(s.tokens_per_step(), 2048 * 4096);
  EXPECT_EQ(s.loss_chunk, 8192);
}

TEST(RowPlan, XtunersPacksAreOfShortSamples) {
  const Plan plan = plan_of_row(xtuner_row());
  EXPECT_EQ(plan.strategy.pack_length, 65536);
  EXPECT_EQ(plan.strategy.sample_length, 4096);
  EXPECT_EQ(plan.strategy.loss_chunk, 1024);
}

TEST(RowPlan, APackageOfTwoDiesIsTwoRanks) {
  const Plan plan = plan_of_row(row_named("xtuner-v1-e20247ee"));
  EXPECT_EQ(plan.devices, 256);
  EXPECT_EQ(plan.strategy.ranks, 512);
  EXPECT_EQ(plan.strategy.gradient_accumulation, 1);
}

TEST(RowPlan, TheNetworkOfTheRunIsTheOneThatItsRowStates) {
  PublishedRow row = xtuner_row();
  row.scale_out_gbit_s_per_device = 100;
  EXPECT_DOUBLE_EQ(plan_of_row(row).profile.scale_out->value.value, 12.5e9);
  EXPECT_EQ(plan_of_row(xtuner_row()).profile.scale_out,
            Catalogue{XT_DATA_ROOT}.machine("h800_sxm").scale_out);
}

TEST(RowPlan, ReplicasAndLayersThatStayGatheredAreTaken) {
  PublishedRow row = xtuner_row();
  row.parallel.dp_shard = 64;
  row.parallel.dp_replicate = 4;
  row.parallel.zero = 2;
  const Strategy s = plan_of_row(row).strategy;
  EXPECT_EQ(s.replicas(), 4);
  EXPECT_FALSE(s.reshards_layers);
}

TEST(RowPlan, SomeLayersRecomputedWholeAreThatMany) {
  PublishedRow row = xtuner_row();
  row.offload.reset();
  row.recompute = PublishedRecompute::selective;
  row.recompute_detail = "full recomputation of every second layer";
  EXPECT_EQ(plan_of_row(row).strategy.recompute_layers, 47);
  row.recompute_detail = "full recomputation of 5 of 94 layers";
  EXPECT_EQ(plan_of_row(row).strategy.recompute_layers, 5);
  row.recompute_detail = "full recomputation of 1 of 2 layers per chunk";
  EXPECT_EQ(reason_of(row), "selective recompute");
}

TEST(RowPlan, ExpertsAreSpreadAcrossNodesAndByTheKernelsOfTheFramework) {
  PublishedRow row = xtuner_row();
  row.parallel.ep = 16;
  EXPECT_EQ(plan_of_row(row).strategy.expert_parallel, 16);
  EXPECT_EQ(plan_of_row(row).strategy.dispatch, Dispatch::all_to_all);
  row.framework = "NeMo AutoModel (FSDP2), DeepEP";
  EXPECT_EQ(plan_of_row(row).strategy.dispatch, Dispatch::deep_ep);
}

// 151936 logits are 30 times a hidden state of 5120: 16384 tokens in 30 parts, up to a power of two
TEST(RowPlan, LigerChunksTheLoss) {
  EXPECT_EQ(plan_of_row(row_named("trl-dense-2793d24c")).strategy.loss_chunk, 1024);
}

TEST(RowPlan, ARowsModelIsTheOneOfTheSameName) {
  const Catalogue catalogue{XT_DATA_ROOT};
  Architecture shipped = catalogue.model("qwen3_235b_a22b").architecture;
  const Architecture built = plan_of_row(xtuner_row()).architecture;
  shipped.rope_theta = built.rope_theta;  // without cost, and in no row
  EXPECT_EQ(built, shipped);
}

TEST(RowPlan, MegatronsRanksShareProductsAndSplitOptimizerState) {
  const Strategy s = plan_of_row(row_named("dgxc-4d7111ab")).strategy;
  EXPECT_EQ(s.engine, "megatron");
  EXPECT_EQ(s.tensor_parallel, 2);
  EXPECT_TRUE(s.tensor_sequence_parallel);
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(s.data_parallel(), 32);
  EXPECT_EQ(s.gradient_accumulation, 4);
  EXPECT_EQ(s.loss_chunk, s.loss_tokens());
}

// What recipes tuned for speed choose, and what Megatron does by itself.
TEST(RowPlan, RecipesOfNvidiaReduceInBf16AndExchangeInPieces) {
  const Strategy nemo = plan_of_row(row_named("dgxc-4d7111ab")).strategy;
  EXPECT_EQ(nemo.reduce_dtype, DType::bf16);
  EXPECT_TRUE(nemo.tensor_parallel_overlap);
  const Strategy megatron = plan_of_row(row_named("mcore-llama-3d23d310")).strategy;
  EXPECT_EQ(megatron.reduce_dtype, DType::fp32);
  EXPECT_FALSE(megatron.tensor_parallel_overlap);
}

TEST(RowPlan, ScalesOfFp8AreTheRowsOrTheRecipes) {
  const Strategy delayed = plan_of_row(row_named("nemo-24.07-3cb13521")).strategy;
  EXPECT_EQ(delayed.fp8_recipe, Fp8Recipe::delayed);
  EXPECT_TRUE(delayed.gathers_fp8);
  EXPECT_EQ(plan_of_row(row_named("nemo-bridge-88048f81")).strategy.fp8_recipe,
            Fp8Recipe::tensorwise);
  EXPECT_EQ(plan_of_row(row_named("dgxc-0728b2d9")).strategy.fp8_recipe, Fp8Recipe::delayed);
  EXPECT_EQ(plan_of_row(row_named("nemo-bridge-05ec24e7")).strategy.fp8_recipe,
            Fp8Recipe::tensorwise);
  EXPECT_FALSE(plan_of_row(row_named("mcore-llama-3d23d310")).strategy.gathers_fp8);
}

TEST(RowPlan, SelectiveRecomputeOfMegatronIsThatOfAttention) {
  const Strategy s = plan_of_row(row_named("bridge-3880-ef695090")).strategy;
  EXPECT_EQ(s.recompute_ops.text(), "attention");
  EXPECT_EQ(s.recompute_layers, 48);
}

TEST(RowPlan, DtypesOfGradientsAndDispatchAreRead) {
  const Strategy s = plan_of_row(row_named("ep-overlap-fa2a4e48")).strategy;
  EXPECT_EQ(s.reduce_dtype, DType::bf16);
  EXPECT_EQ(s.dispatch, Dispatch::deep_ep);
}

TEST(RowPlan, MicroStepsRunInPairsWhereARowSaysSo) {
  const auto pairs = [](const char* id) {
    return plan_of_row(row_named(id)).strategy.expert_parallel_overlap;
  };
  EXPECT_TRUE(pairs("ep-overlap-38fd9fa3"));
  EXPECT_TRUE(pairs("ep-overlap-45ccdee7"));
  EXPECT_TRUE(pairs("bridge-3880-357e1db9"));
  EXPECT_FALSE(pairs("ep-overlap-c055a8db"));
  EXPECT_FALSE(pairs("ep-overlap-fa2a4e48"));
  EXPECT_EQ(reason_of(row_named("ep-overlap-c37b8b48")),
            "products of weight gradients behind another exchange");
}

TEST(RowPlan, DispatchIsTheRowsOrTheRecipes) {
  const auto dispatch = [](const char* id) { return plan_of_row(row_named(id)).strategy.dispatch; };
  EXPECT_EQ(dispatch("nemo-bridge-54215992"), Dispatch::deep_ep);
  EXPECT_EQ(dispatch("nemo-bridge-2ea8cd75"), Dispatch::all_to_all);
  EXPECT_EQ(dispatch("ep-overlap-45ccdee7"), Dispatch::all_to_all);
}

TEST(RowPlan, DeepSpeedSharesPacksByHeads) {
  const Strategy s = plan_of_row(row_named("xtuner-legacy-711df2a5")).strategy;
  EXPECT_EQ(s.engine, "deepspeed");
  EXPECT_EQ(s.sequence_parallel, 4);
  EXPECT_EQ(s.context_parallel, 1);
  EXPECT_EQ(s.zero, 3);
  EXPECT_FALSE(s.is_compiled);
}

// Source: Megatron-LM, megatron/arguments.py, for dropout where nothing is said
TEST(RowPlan, AttentionWithoutFusedKernelsKeepsScoresAndDropsSome) {
  const Plan plan = plan_of_row(row_named("korthikanti-73c04f0c"));
  EXPECT_FALSE(plan.strategy.fuses_attention);
  EXPECT_EQ(plan.architecture.model_type, "gpt2");
  EXPECT_TRUE(plan.architecture.has_attention_dropout);
  EXPECT_TRUE(plan.architecture.has_dropout);
}

TEST(RowPlan, TokensBeyondTheNextArePricedWhereTheEngineHasThem) {
  PublishedRow row = xtuner_row();
  row.model.mtp_layers = 1;
  EXPECT_EQ(plan_of_row(row).architecture.further_tokens, 1);
}

TEST(RowPlan, WhatNoPlanHasIsNamed) {
  const auto reason = [](auto change) {
    PublishedRow row = xtuner_row();
    change(row);
    return reason_of(row);
  };
  EXPECT_EQ(reason([](auto& row) { row.parallel.tp = 2; }), "tensor parallelism");
  EXPECT_EQ(reason([](auto& row) { row.parallel.pp = 2; }), "pipeline parallelism");
  EXPECT_EQ(reason([](auto& row) { row.parallel.cp = 2; }), "context parallelism");
  EXPECT_EQ(reason([](auto& row) { row.parallel.zero = 1; }), "stage of ZeRO");
  EXPECT_EQ(reason([](auto& row) { row.framework_family = "jax"; }), "engine jax");
  EXPECT_EQ(reason([](auto& row) { row.machine = "a100_80g_pcie"; }), "machine a100_80g_pcie");
  EXPECT_EQ(reason([](auto& row) {
              row.model.q_lora_rank = row.model.kv_lora_rank = 16, row.model.sliding_window = 128;
            }),
            "sliding windows");
  EXPECT_EQ(reason([](auto& row) { row.model.name = "another"; }), "model other_moe");
  EXPECT_EQ(reason([](auto& row) { row.offload = "optimizer"; }),
            "offload of other than inputs of layers, or optimizer and weights");
  EXPECT_EQ(reason([](auto& row) { row.offload = "parameters, optimizer"; }),
            "an update on the host");
  EXPECT_EQ(reason([](auto& row) { row.notes += "MLP computed in tiles"; }), "an ffn in tiles");
}

TEST(RowPlan, WhatTheChecksOfAPlanRefuseIsToldInTheirWords) {
  PublishedRow row = xtuner_row();
  row.model.num_key_value_heads = 7;
  const RowPlan plan = plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT}));
  EXPECT_EQ(plan.reason, "refused by the checks of a plan");
  EXPECT_THAT(plan.detail, testing::HasSubstr("64 query heads are not divisible by 7"));
}

TEST(Validate, EveryPublishedRowIsPricedOrHasAListedReason) {
  const std::vector<PublishedRow> rows = all_rows();
  EXPECT_EQ(rows.size(), 615u);
  const std::vector<std::string> reasons = unsupported_reasons();
  const std::vector<RowOutcome> outcomes = price_rows(rows, Catalogue{XT_DATA_ROOT}, 2);
  std::size_t n_priced = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (outcomes[i].predicted)
      ++n_priced;
    else
      EXPECT_THAT(reasons, testing::Contains(outcomes[i].reason)) << rows[i].id;
  }
  EXPECT_GE(n_priced, 20u);
}

TEST(Validate, ThreadsDoNotChangeTheAnswer) {
  const std::vector<PublishedRow> rows = all_rows();
  const auto answer = [&](std::size_t n_threads) {
    return validation_json(score(rows, price_rows(rows, Catalogue{XT_DATA_ROOT}, n_threads)))
        .dump();
  };
  EXPECT_EQ(answer(1), answer(4));
}

TEST(Validate, ExecutedFlopsOfATokenAreThoseOfTheEstimate) {
  const Plan plan = plan_of_row(row_named("xtuner-v1-e20247ee"));
  const Estimate answer = estimate(plan);
  // both ranks of a package together execute twice the flops on twice the tokens
  const double tokens = static_cast<double>(plan.strategy.rank_tokens());
  EXPECT_NEAR(predict(plan).hardware_flops_per_token * tokens / answer.hardware_flops.value, 1,
              1e-12);
}

}  // namespace
}  // namespace xt
