// Rates that sources print, counted again by the convention that each names.

#include "planner/validate/printed_flops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace xt {
namespace {

std::vector<PublishedRow> all_rows() {
  const std::vector<std::filesystem::path> paths = {std::filesystem::path(XT_DATA_ROOT) / "tests" /
                                                    "published" / "published.json"};
  return read_published(paths);
}

PublishedRow row_named(const std::string& id) {
  const std::vector<PublishedRow> rows = all_rows();
  return *std::ranges::find(rows, id, &PublishedRow::id);
}

TEST(PrintedFlops, ConventionsReproduceNearlyAllPrintedRates) {
  std::size_t n = 0;
  std::vector<std::string> inconsistent;
  for (const PublishedRow& row : all_rows()) {
    const auto printed = printed_flops(row);
    const bool states_one = row.measured.tflops_per_device && row.tokens_per_device_s();
    EXPECT_EQ(printed.has_value(), states_one) << row.id;
    if (!printed) continue;
    ++n;
    if (!printed->is_reproduced()) inconsistent.push_back(row.id);
  }
  EXPECT_EQ(n, 175u);
  // 1664 tokens a second times 449 GFLOP are 747 TFLOP/s, where the table says 731; InternEvo's
  // tokens a second of three rows times 44 GFLOP are up to 1.6 % less than it prints.
  EXPECT_EQ(inconsistent, (std::vector<std::string>{"internevo-8408390d", "internevo-0e137eec",
                                                    "internevo-2bcfb00b", "nemo-bridge-865c107f"}));
  EXPECT_LE(inconsistent.size(), n / 20);
}

TEST(PrintedFlops, AConventionOfItsOwnIsNeededByEachFamily) {
  // What the plain rule, causal pairs and no recompute, is off by.
  const auto ratio_to_plain = [](const std::string& id) {
    PublishedRow row = row_named(id);
    const double own = printed_flops(row)->per_token;
    row.framework = "another";
    row.measured.mfu_convention = "causal";
    return own / printed_flops(row)->per_token;
  };
  EXPECT_NEAR(ratio_to_plain("colossal-503cb16e"), 1.43, 0.01);  // recompute and full pairs
  EXPECT_NEAR(ratio_to_plain("llm-foundry-26f8f45c"), 1.01,
              0.01);                                           // short samples: little to count
  EXPECT_GT(ratio_to_plain("torchtitan-dsv3-43da587e"), 1.1);  // full pairs of latent attention
}

TEST(PrintedFlops, WhatIsUnknownIsNotCounted) {
  PublishedRow row = row_named("colossal-503cb16e");
  row.framework = "another";
  row.measured.mfu_convention = "counted somehow";
  EXPECT_FALSE(printed_flops(row));
  row = row_named("colossal-503cb16e");
  row.measured.tokens_per_device_s.reset();
  row.measured.step_time_s.reset();
  EXPECT_FALSE(printed_flops(row));
}

}  // namespace
}  // namespace xt
