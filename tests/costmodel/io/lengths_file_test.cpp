#include "costmodel/io/lengths_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/files.h"
#include "tests/costmodel/io/index_file.h"

namespace xt {
namespace {

using testing::HasSubstr;

std::filesystem::path written(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  write_file(path, text, Overwrite::allow);
  return path;
}

std::string problem_of(const std::string& name, const std::string& text) {
  try {
    read_lengths(written(name, text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(LengthsFile, IsAHistogramOrLinesOrTheIndexOfTokens) {
  const LengthHistogram expected{{{3, 2}, {900, 1}}};
  EXPECT_EQ(read_lengths(written("xt_lengths.json",
                                 R"({"schema": "xt.lengths/1", "lengths": [[3, 2], [900, 1]]})")),
            expected);
  EXPECT_EQ(
      read_lengths(written("xt_lengths.jsonl",
                           "{\"num_tokens\": 3}\n{\"num_tokens\": 900}\n{\"num_tokens\": 3}")),
      expected);
  EXPECT_EQ(read_lengths(written("xt_lengths.idx", test::index_file(4, 4, {3, 900, 0, 3}))),
            expected);
}

TEST(LengthsFile, WithoutSamplesOrOfAnotherKindIsRefusedByName) {
  EXPECT_THAT(problem_of("xt_none.jsonl", ""), HasSubstr("xt_none.jsonl: error: has no samples"));
  EXPECT_THAT(problem_of("xt_none.idx", test::index_file(4, 4, {})),
              HasSubstr("xt_none.idx: error: has no samples"));
  EXPECT_THAT(problem_of("xt_short.idx", "MMIDIDX"), HasSubstr("error: ends too early"));
  EXPECT_THAT(problem_of("xt_lengths.csv", "3,900"), HasSubstr("xt_lengths.csv: error: is not a"));
  EXPECT_THAT(problem_of("xt_lines.jsonl", "{\"num_tokens\": 3}\n{\"num_tokens\": 0}"),
              HasSubstr("xt_lines.jsonl:2:"));
}

TEST(LengthsFile, SamplesThatNoMemoryHoldsAreRefusedByTheirLine) {
  EXPECT_THAT(problem_of("xt_long.jsonl", "{\"num_tokens\": 3}\n{\"num_tokens\": 1000000001}"),
              testing::AllOf(HasSubstr("xt_long.jsonl:2:"),
                             HasSubstr("num_tokens is 1000000001, must be at most 1000000000")));
}

TEST(LengthsFile, ABareListIsToldTheFormatOfAHistogram) {
  try {
    read_lengths(written("xt_list.json", "[[3, 2]]"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().front().message, "is a list, expected a map");
    EXPECT_THAT(error.problems().front().hint, HasSubstr("\"schema\": \"xt.lengths/1\""));
  }
}

}  // namespace
}  // namespace xt
