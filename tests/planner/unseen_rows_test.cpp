// Published rows that spell things as no committed row does: read alike, or refused by what they
// say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/io/files.h"
#include "planner/validate/model_config.h"
#include "planner/validate/row_attention.h"
#include "planner/validate/row_offload.h"
#include "planner/validate/row_recompute.h"
#include "planner/validate/row_routing.h"
#include "planner/validate/spelling.h"
#include "tests/planner/published_rows.h"

namespace xt {
namespace {

const std::vector<PublishedRow>& all_rows() {
  static const std::vector<std::filesystem::path> paths = {
      std::filesystem::path(XT_DATA_ROOT) / "tests" / "published" / "published.json"};
  static const std::vector<PublishedRow> rows = read_published(paths);
  return rows;
}

PublishedRow row_named(const std::string& id) {
  return *std::ranges::find(all_rows(), id, &PublishedRow::id);
}

RowPlan plan_of_row(const PublishedRow& row) {
  return plan_of(row, profiles_of({row}, Catalogue{XT_DATA_ROOT}));
}

std::string said(const PublishedRow& row) {
  const RowPlan plan = plan_of_row(row);
  return plan.reason + "; " + plan.detail;
}

PublishedRow gpt_row() { return row_named("llm-foundry-26f8f45c"); }

TEST(UnseenRow, WordsAreRunsOfLettersAndOfDigits) {
  EXPECT_THAT(words_of("Qwen3-30B_A3B"),
              testing::ElementsAre("qwen", "3", "30", "b", "a", "3", "b"));
  EXPECT_TRUE(has_words("BLOOM, Megatron-DeepSpeed", "megatron deepspeed"));
  EXPECT_TRUE(has_words("Qwen-3 8B", "qwen3"));
  EXPECT_FALSE(has_words("Qwen-32B", "qwen3"));
  EXPECT_TRUE(begins_with_words("flash_attention_2 (varlen)", "FlashAttention 2") ||
              begins_with_words("flash_attention_2 (varlen)", "flash attention 2"));
  EXPECT_FALSE(begins_with_words("no flash", "flash"));
}

// Every engine that is chosen by name is chosen by that name in capitals and in small letters.
TEST(UnseenRow, CapitalsOfAFrameworkChangeNothing) {
  for (const PublishedRow& row : all_rows()) {
    PublishedRow other = row;
    std::ranges::transform(other.framework, other.framework.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const RowPlan before = plan_of_row(row), after = plan_of_row(other);
    ASSERT_EQ(before.reason, after.reason) << row.id;
    if (!before.plan) continue;
    EXPECT_EQ(before.plan->strategy, after.plan->strategy) << row.id;
  }
}

TEST(UnseenRow, AModelIsKnownByItsNameHoweverItIsSpelled) {
  PublishedModel model = row_named("xtuner-v1-67907ff0").model;
  for (const char* name : {"Qwen3-235B-A22B", "qwen-3 235b a22b", "QWEN3_235B"}) {
    model.name = name;
    EXPECT_EQ(model_type(model), "qwen3_moe") << name;
  }
  model.name = "Grok-1 314B";
  EXPECT_EQ(model_type(model), "mixtral");
  model.name = "GLM-4.5-Air";
  EXPECT_EQ(model_type(model), "glm4_moe");
}

// Layers with a state in place of attention are not those of the model whose name begins alike.
TEST(UnseenRow, HybridsAreNotPricedAsTheirNamesakes) {
  PublishedModel model = row_named("xtuner-v1-67907ff0").model;
  for (const char* name : {"Qwen3-Next-80B-A3B", "Qwen3.5-397B-A17B"}) {
    model.name = name;
    EXPECT_EQ(model_type(model), "hybrid") << name;
  }
  model = row_named("dgxc-6d943727").model;
  model.name = "Nemotron-H 8B";
  EXPECT_EQ(model_type(model), "hybrid");
}

TEST(UnseenRow, ExpertsOfTwoMatricesOrUnderLearnedPositionsAreRefused) {
  PublishedModel model = row_named("xtuner-v1-67907ff0").model;
  model.gated_mlp = false;
  EXPECT_EQ(model_type(model), "other_moe");
  model.gated_mlp = true;
  model.position = "learned";
  EXPECT_EQ(model_type(model), "other_moe");
  model.position = std::nullopt;
  EXPECT_EQ(model_type(model), "qwen3_moe");
}

TEST(UnseenRow, AShapeThatItsFamilyDerivesIsNotIgnored) {
  PublishedRow row = gpt_row();
  EXPECT_EQ(said(row), "; ");
  row.model.head_dim *= 2;
  EXPECT_EQ(said(row), "a shape that its family cannot have; 40 heads of 256 in a width of 5120");
  row = gpt_row();
  row.model.intermediate_size += 1024;
  EXPECT_THAT(said(row), testing::HasSubstr("an ffn of 21504 is no multiple of 5120"));
  row = gpt_row();
  row.model.mtp_layers = 1;
  EXPECT_THAT(said(row), testing::HasSubstr("further tokens"));
}

TEST(UnseenRow, AnLmHeadOfItsOwnIsCountedInAGptToo) {
  PublishedRow row = gpt_row();
  EXPECT_TRUE(plan_of_row(row).plan.value().architecture.tie_word_embeddings);
  row.model.tie_word_embeddings = false;
  EXPECT_FALSE(plan_of_row(row).plan.value().architecture.tie_word_embeddings);
}

TEST(UnseenRow, AttentionIsReadHoweverItIsSpelled) {
  PublishedRow row = test::row_of("a-1");
  const auto library = [&](const char* text) {
    row.attention = text;
    return attention_library(row);
  };
  for (const char* text : {"flash2", "FlashAttention-2", "flash_attention_2", "FA2"})
    EXPECT_EQ(library(text), "flash2") << text;
  EXPECT_EQ(library("FlashAttention 3"), "flash3");
  EXPECT_EQ(library("sdpa"), std::nullopt);
  EXPECT_EQ(library("flash4"), "flash4");
  row.attention = "eager";
  EXPECT_TRUE(has_unfused_attention(row));
}

// Also where a machine has one curve of attention, whatever library runs it.
TEST(UnseenRow, EagerAttentionIsNotPricedAsFused) {
  PublishedRow row = row_named("modellink-9b940838");
  row.attention = "eager";
  EXPECT_THAT(said(row), testing::HasSubstr("mindspeed has fused attention only"));
}

TEST(UnseenRow, ModulesThatRunAgainAreReadInAnyOrder) {
  PublishedRow row = test::row_of("a-1");
  row.recompute = PublishedRecompute::selective;
  const auto ops = [&](const char* detail) {
    row.recompute_detail = detail;
    return dropped_ops(row);
  };
  EXPECT_EQ(ops("layernorm, moe_act"), "activations+layer_norms");
  EXPECT_EQ(ops("moe_act,layernorm"), ops("layernorm, moe_act"));
  EXPECT_EQ(ops("core attention"), "attention");
  EXPECT_EQ(ops("core_attn + mlp"), "attention+ffn");
  EXPECT_EQ(ops("core_attn, mla_up_proj"), std::nullopt);
}

TEST(UnseenRow, RecomputeByOpAndOfHalfTheLayersIsReadHoweverItIsSpelled) {
  PublishedRow row = row_named("torchao-7fa067b3");
  const std::optional<std::string> by_op = dropped_ops(row);
  for (const char* detail : {"selective op: every other matmul is recomputed", "Per-OP SAC",
                             "op-level selective AC, attention saved"}) {
    row.recompute_detail = detail;
    EXPECT_EQ(dropped_ops(row), by_op) << detail;
  }
  row.recompute_detail = "every other layer is checkpointed";
  EXPECT_EQ(dropped_ops(row), std::nullopt);
  EXPECT_EQ(recompute_of(row), "16");
  row.recompute_detail = "whatever optimizes best";
  EXPECT_EQ(recompute_of(row), std::nullopt);
}

TEST(UnseenRow, ReasonsQuoteWhatTheyRefuse) {
  PublishedRow row = row_named("xtuner-v1-67907ff0");
  row.offload = "every second tensor";
  EXPECT_THAT(said(row), testing::EndsWith("; `every second tensor`"));
  row = gpt_row();
  row.recompute = PublishedRecompute::selective;
  row.recompute_detail = "what fits";
  EXPECT_EQ(said(row), "selective recompute; `what fits`");
  row = gpt_row();
  row.parallel.zero = 1;
  EXPECT_EQ(said(row), "stage of ZeRO; composer has no stage 1");
}

TEST(UnseenRow, NothingOnTheHostIsNothing) {
  PublishedRow row = test::row_of("a-1");
  row.offload = "None";
  EXPECT_FALSE(offload_of(row)->of_inputs || offload_of(row)->of_optimizer);
}

TEST(UnseenRow, TheFieldOfBalanceCountsBeforeNotes) {
  PublishedRow row = test::row_of("a-1");
  row.model.num_experts = 64;
  row.parallel.ep = 8;
  row.moe_balance = MoeBalance::natural;
  EXPECT_GT(routing_imbalance(row), 1.4);
  row.moe_balance = MoeBalance::forced;
  row.notes = "compared with natural routing";
  EXPECT_EQ(routing_imbalance(row), 1);
}

// Between nodes of four the same 16 devices have to cross the network more often.
TEST(UnseenRow, NodesAreAsLargeAsTheRowSays) {
  PublishedRow row = gpt_row();
  row.devices = row.parallel.dp_shard = 16;
  const Plan usual = plan_of_row(row).plan.value();
  row.devices_per_node = 4;
  const Plan small = plan_of_row(row).plan.value();
  EXPECT_EQ(small.profile.ranks_per_node(), 4);
  EXPECT_EQ(small.profile.scale_up.domain_ranks, 4);
  EXPECT_LT(predict(small).tokens_per_device_s, predict(usual).tokens_per_device_s);
  row.devices_per_node = 16;
  EXPECT_EQ(
      said(row),
      "devices that are no such machine; a node of 16 devices, where the fast network joins 8");
}

TEST(UnseenRow, AFastNetworkOverManyNodesStaysWhole) {
  PublishedRow row = gpt_row();
  row.machine = "gb200";
  row.attention = std::nullopt;
  row.framework = "PyTorch FSDP1";
  row.devices = row.parallel.dp_shard = 16;
  for (const std::int64_t devices : {2, 4, 16, 72}) {
    row.devices_per_node = devices;
    EXPECT_EQ(plan_of_row(row).plan.value().profile.scale_up.domain_ranks, 72) << devices;
  }
}

TEST(UnseenRow, DiesThatFillNoPackageAreRefused) {
  PublishedRow row = gpt_row();
  row.machine = "ascend_a3_die";
  row.devices = row.parallel.dp_shard = 3;
  EXPECT_THAT(said(row), testing::HasSubstr("3 dies, 8 in a node, fill no packages of 2"));
}

// NeMo turns the overlap off where ranks repeat tokens.
TEST(UnseenRow, RecipesExchangeInPiecesOnlyWhereRanksShareTokens) {
  PublishedRow row = row_named("nemo-24.07-17173caf");
  row.parallel.tp = row.devices = row.devices_per_node = 8;
  row.parallel.dp_shard = row.parallel.dp_replicate = row.parallel.pp = row.parallel.vpp = 1;
  row.parallel.sequence_parallel = true;
  EXPECT_TRUE(plan_of_row(row).plan.value().strategy.tensor_parallel_overlap);
  row.parallel.sequence_parallel = false;
  EXPECT_FALSE(plan_of_row(row).plan.value().strategy.tensor_parallel_overlap);
}

std::string refusal_of(const std::string& key, const std::string& before,
                       const std::string& after) {
  std::string text =
      read_file(std::filesystem::path(XT_DATA_ROOT) / "tests" / "published" / "simumax_b200.json");
  const std::string field = "\"" + key + "\":" + before;
  text.replace(text.find(field), field.size(), "\"" + key + "\":" + after);
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "xt_huge_row.json";
  write_file(path, text, Overwrite::allow);
  try {
    read_published(std::vector{path});
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

// They divided by a product that had run over to zero, or counted layers for ever.
TEST(UnseenRow, NumbersThatNoRunHasAreRefusedWhereTheyStand) {
  const std::string huge = "4611686018427387904";
  EXPECT_THAT(refusal_of("micro_batch_size", "1", huge), testing::HasSubstr("must be at most"));
  EXPECT_THAT(refusal_of("num_hidden_layers", "12", huge), testing::HasSubstr("must be at most"));
  EXPECT_THAT(refusal_of("tp", "1", huge), testing::HasSubstr("must be at most"));
  EXPECT_EQ(refusal_of("micro_batch_size", "1", "1"), "none");
}

}  // namespace
}  // namespace xt
