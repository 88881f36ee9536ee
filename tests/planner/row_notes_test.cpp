// What published rows say beside their fields.

#include "planner/validate/row_notes.h"

#include <gtest/gtest.h>

#include "tests/planner/published_rows.h"

namespace xt {
namespace {

TEST(RowNotes, RoutedModelsOfAutoModelAttendByTransformerEngine) {
  PublishedRow row = test::row_of("automodel");
  row.framework = "NeMo AutoModel (PyTorch FSDP2)";
  EXPECT_FALSE(attends_by_transformer_engine(row));
  row.model.num_experts = 128;
  EXPECT_TRUE(attends_by_transformer_engine(row));
  row.notes = "DeepEP dispatcher; FlexAttention";
  EXPECT_FALSE(attends_by_transformer_engine(row));
  row.notes.clear();
  row.framework = "torchtitan (FSDP2)";
  EXPECT_FALSE(attends_by_transformer_engine(row));
}

TEST(RowNotes, SayHowManyGradientsArePutTogether) {
  PublishedRow row = test::row_of("flagperf");
  EXPECT_TRUE(flags_of_notes(row).empty());
  row.notes = "ZeRO prefetch bucket 1e7, gather bucket 1e8, reduce bucket 2e7, overlap on";
  const std::vector<std::pair<std::string, std::string>> bucket = {{"reduce_bucket", "20000000"}};
  EXPECT_EQ(flags_of_notes(row), bucket);
}

TEST(RowNotes, SayHowFarAMeanFromTheStartLiesBelowTheSteadyRate) {
  PublishedRow row = test::row_of("trl");
  EXPECT_EQ(below_steady(row), 0);
  row.notes = "no Liger; mean over 20 steps from the start, about 5 % below the steady value; SDPA";
  EXPECT_DOUBLE_EQ(below_steady(row), 0.05);
  row.notes = "mean over 20 steps from the start, about 2 s behind";
  EXPECT_EQ(below_steady(row), 0);
}

TEST(RowNotes, SayThatTransformerEngineHasTheLoss) {
  PublishedRow row = test::row_of("simumax");
  EXPECT_FALSE(compiles_loss(row));
  row.notes = "mock data; fused cross entropy (Transformer Engine)";
  EXPECT_TRUE(compiles_loss(row));
}

TEST(RowNotes, SayThatLigerHasTheLossOrACompilerTheWholeGraph) {
  PublishedRow row = test::row_of("trl");
  row.notes = "full logits, no Liger";
  EXPECT_TRUE(has_whole_logits(row));
  EXPECT_FALSE(compiles_loss(row));
  row.notes = "gradient checkpointing; Liger fused linear cross entropy, norm and rope";
  EXPECT_TRUE(compiles_loss(row));
  row.notes.clear();
  row.framework = "torchtitan graph trainer (simple FSDP traced into one graph), full inductor";
  EXPECT_TRUE(compiles_loss(row));
}

// Neither a name's year nor the graph trainer says so.
TEST(RowNotes, TorchtitansTrainerCompilesItsLossSinceApril2025) {
  PublishedRow row = test::row_of("torchtitan");
  row.framework = "torchtitan (FSDP2)";
  row.framework_family = "fsdp2";
  row.compile = true;
  row.source.date = "2025-03-07";
  EXPECT_FALSE(compiles_loss(row));
  row.source.date = "2025-12";
  EXPECT_TRUE(compiles_loss(row));
  row.compile = false;
  EXPECT_FALSE(compiles_loss(row));
  row.compile = true;
  row.framework = "torchtitan graph trainer (simple FSDP traced into one graph), 2026";
  row.framework_family = "other";
  EXPECT_FALSE(compiles_loss(row));
}

// 110 lies between 100 allocated and 120 reserved, which of them it is was assumed.
TEST(Score, MemoryOfAKindThatWasAssumedIsHeldAgainstAnInterval) {
  PublishedRow assumed = test::with_memory(test::row_of("a-1"), 110, MemoryKind::allocated);
  const PublishedRow printed = assumed;
  assumed.notes = "printed in MB, read as MiB, peak allocated assumed; block size of a script";
  const Validation of = score({assumed, printed}, {test::outcome_of(1), test::outcome_of(1)});
  EXPECT_DOUBLE_EQ(*of.rows[0].memory_error, 0);
  EXPECT_DOUBLE_EQ(*of.rows[1].memory_error, 100.0 / 110 - 1);
  EXPECT_EQ(of.total.n_open_memory, 1u);
}

// 150 GiB that may be GB are at least 139.7; the device counts 140, twice that would be 280.
TEST(Score, MemoryOfNoStatedUnitIsHeldAgainstBoth) {
  const auto error = [](std::int64_t bytes, const char* notes) {
    PublishedRow row = test::with_memory(test::row_of("a-1"), bytes, std::nullopt);
    row.notes = notes;
    return *score({row}, {test::outcome_of(1)}).rows[0].memory_error;
  };
  constexpr auto of_gb =
      "printed in whole GB; unit, rank and kind (allocator or device) not stated";
  constexpr auto of_gib = "kind (allocator or device) not stated";
  EXPECT_DOUBLE_EQ(error(150, of_gb), 0);
  EXPECT_DOUBLE_EQ(error(150, of_gib), 140.0 / 150 - 1);
  EXPECT_DOUBLE_EQ(error(300, of_gb), 140.0 / 279 - 1);
  EXPECT_DOUBLE_EQ(error(80, of_gb), 0.25);
}

}  // namespace
}  // namespace xt
