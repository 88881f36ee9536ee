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

}  // namespace
}  // namespace xt
