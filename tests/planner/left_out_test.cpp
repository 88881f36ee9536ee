// What profiles learn from the rows of other sources.

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/validate/validate.h"

namespace xt {
namespace {

// Rows of one machine as two sources, measured as the machine would if products took longer.
std::vector<PublishedRow> slower_rows(const Catalogue& catalogue, double factor) {
  const std::filesystem::path file =
      std::filesystem::path(XT_DATA_ROOT) / "tests" / "published" / "published.json";
  const std::vector<std::filesystem::path> files = {file};
  std::vector<PublishedRow> rows;
  for (PublishedRow& row : read_published(files)) {
    if (row.machine != "a100_80g_sxm" || row.group() != "llm-foundry") continue;
    row.id = (rows.size() % 2 == 0 ? "one-" : "other-") + std::to_string(rows.size());
    rows.push_back(std::move(row));
  }
  Profiles slower = profiles_of(rows, catalogue);
  slower.at("a100_80g_sxm").sustained_clock->value /= factor;
  for (PublishedRow& row : rows)
    row.measured.tokens_per_device_s = predict(*plan_of(row, slower).plan).tokens_per_device_s;
  return rows;
}

TEST(LeftOut, FindsWhatAllSourcesOfAMachineHaveInCommon) {
  const Catalogue catalogue{XT_DATA_ROOT};
  const std::vector<PublishedRow> rows = slower_rows(catalogue, 1.3);
  ASSERT_GE(rows.size(), 10U);
  const Validation found = score(rows, price_rows(rows, catalogue, 2));
  for (const RowScore& of : found.rows) {
    EXPECT_LT(*of.time_error, -0.04) << of.row.id;
    EXPECT_LT(std::abs(*of.left_out_time_error), 0.03) << of.row.id;
  }
}

TEST(LeftOut, SaysNothingWhereThereIsNoOtherSource) {
  const Catalogue catalogue{XT_DATA_ROOT};
  std::vector<PublishedRow> rows = slower_rows(catalogue, 1.3);
  std::erase_if(rows, [](const PublishedRow& row) { return row.group() == "other"; });
  for (const RowScore& of : score(rows, price_rows(rows, catalogue, 2)).rows) {
    EXPECT_TRUE(of.time_error.has_value());
    EXPECT_FALSE(of.left_out_time_error.has_value());
  }
}

}  // namespace
}  // namespace xt
