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

}  // namespace
}  // namespace xt
