#include "costmodel/document/reader.h"

#include <gtest/gtest.h>

#include <string>

#include "costmodel/io/json_document.h"
#include "costmodel/io/yaml.h"
#include "tests/costmodel/document/swap_sample.h"

namespace xt {
namespace {

using namespace literals;

Sample sample_from(const std::string& yaml) { return read<Sample>(parse_yaml({"run.yaml", yaml})); }

/// The problems of `yaml`, one a line.
std::string problems_of(const std::string& yaml) {
  try {
    sample_from(yaml);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// The first problem of a sample whose required keys are right and that also has `line` at line 3.
std::string problem_of(const std::string& line) {
  return problems_of("policy: none\nbudget: 1 GiB\n" + line + "\n");
}

TEST(Reader, FillsEveryShapeOfField) {
  const Sample sample = sample_from(
      "policy: swap_greedy_layer\n"
      "budget: 40 GiB\n"
      "prefetch_layers: 2\n"
      "keep_ratio: 0.25\n"
      "is_async: true\n"
      "dtype: fp8\n"
      "chunk_size: 512\n"
      "layers: [3, 4]\n"
      "curve:\n"
      "  - [1024, 0.5]\n"
      "  - [4096, 0.75]\n"
      "note: \"7\"\n"
      "links:\n"
      "  nvlink: {rate: 400 GB/s, latency: 2 us}\n"
      "  host:\n"
      "    rate: 64 GB/s\n"
      "    latency: 10 us\n");
  EXPECT_EQ(sample.policy, "swap_greedy_layer");
  EXPECT_EQ(sample.budget, 40_GiB);
  EXPECT_EQ(sample.prefetch_layers, 2);
  EXPECT_EQ(sample.keep_ratio, 0.25);
  EXPECT_TRUE(sample.is_async);
  EXPECT_EQ(sample.dtype, DType::fp8);
  EXPECT_EQ(sample.chunk_size, ChunkSize{512});
  EXPECT_EQ(sample.layers, (std::vector{3, 4}));
  EXPECT_EQ(sample.curve.at(1), (std::pair<std::int64_t, double>(4096, 0.75)));
  EXPECT_EQ(sample.note, "7");
  ASSERT_EQ(sample.links.entries.size(), 2U);
  EXPECT_EQ(sample.links.entries[0].first, "nvlink");
  EXPECT_EQ(sample.links.find("host")->latency, Seconds(10e-6));
}

TEST(Reader, KeepsInitialValuesOfOptionalKeys) {
  const Sample sample = sample_from("policy: none\nbudget: 1 GiB\n");
  EXPECT_EQ(sample.prefetch_layers, 1);
  EXPECT_EQ(sample.note, std::nullopt);
}

TEST(Reader, ReportsEveryProblemInOrderOfPosition) {
  EXPECT_EQ(problems_of("links: {nvlink: {rate: 400 Gb/s}}\n"
                        "budget: 40\n"
                        "polcy: none\n"
                        "budget: 2 GiB\n"),
            "run.yaml: error: missing key `policy`\n"
            "run.yaml:1:9: error: missing key `latency`\n"
            "run.yaml:1:24: error: unit `Gb/s` is ambiguous\n"
            "run.yaml:2:9: error: `40` has no unit\n"
            "run.yaml:3:1: error: unknown key `polcy`\n"
            "run.yaml:4:1: error: duplicate key `budget`, first at line 2");
}

TEST(Reader, HintsWithTheNearestKeyAndTheMeaningOfAMissingOne) {
  try {
    sample_from("polcy: none\nbudget: 1 GiB\n");
    FAIL() << "a misspelt key was accepted";
  } catch (const InputError& error) {
    ASSERT_EQ(error.problems().size(), 2U);
    EXPECT_EQ(error.problems()[0].hint, "`policy`: How to choose what leaves the device");
    EXPECT_EQ(error.problems()[1].hint, "did you mean `policy`?");
  }
}

TEST(Reader, SaysWhatWasExpectedAndWhatWasFound) {
  EXPECT_EQ(problem_of("prefetch_layers: two"),
            "run.yaml:3:18: error: expected a whole number, found `two`");
  EXPECT_EQ(problem_of("prefetch_layers: \"2\""),
            "run.yaml:3:18: error: expected a whole number, found the text `2`");
  EXPECT_EQ(problem_of("prefetch_layers: 2.5"),
            "run.yaml:3:18: error: expected a whole number, found `2.5`");
  EXPECT_EQ(problem_of("prefetch_layers: 010"),
            "run.yaml:3:18: error: number `010` has a leading zero");
  EXPECT_EQ(problem_of("prefetch_layers: 3000000000"),
            "run.yaml:3:18: error: number `3000000000` is out of range");
  EXPECT_EQ(problem_of("prefetch_layers: [2]"),
            "run.yaml:3:1: error: expected a whole number, found a list");
  EXPECT_EQ(problem_of("prefetch_layers:"),
            "run.yaml:3:1: error: expected a whole number, found nothing");
  EXPECT_EQ(problem_of("is_async: yes"),
            "run.yaml:3:11: error: expected `true` or `false`, found `yes`");
  EXPECT_EQ(problem_of("note: 7"), "run.yaml:3:7: error: expected text, found `7`");
  EXPECT_EQ(problem_of("layers: 7"), "run.yaml:3:9: error: expected a list, found `7`");
  EXPECT_EQ(problem_of("links: [1]"), "run.yaml:3:1: error: expected a map, found a list");
  EXPECT_EQ(problem_of("curve: [[1]]"), "run.yaml:3:9: error: expected two values, found 1");
  EXPECT_EQ(problem_of("dtype: bf17"), "run.yaml:3:8: error: unknown dtype `bf17`");
  EXPECT_EQ(problem_of("chunk_size: all"),
            "run.yaml:3:13: error: expected a whole number, found `all`");
}

TEST(Reader, HoldsFieldsToTheirLimits) {
  EXPECT_EQ(problem_of("prefetch_layers: 0"),
            "run.yaml:3:18: error: prefetch_layers is `0`, must be at least `1`");
  EXPECT_EQ(problem_of("keep_ratio: 1.5"),
            "run.yaml:3:13: error: keep_ratio is `1.5`, must be at most `1`");
  EXPECT_EQ(problem_of("layers: [1, -2]"),
            "run.yaml:3:13: error: layers is `-2`, must be at least `0`");
  EXPECT_EQ(problem_of("links: {a: {rate: 0 B/s, latency: 1 us}}"),
            "run.yaml:3:19: error: rate is `0 B/s`, must be above `0 B/s`");
  EXPECT_EQ(problems_of("policy: swap_greedy_layr\nbudget: 1 GiB\n"),
            "run.yaml:1:9: error: unknown policy `swap_greedy_layr`");
}

TEST(Reader, ChecksWhatInvolvesSeveralFieldsOnceEachIsRight) {
  EXPECT_EQ(problem_of("prefetch_layers: 3\nlayers: [1]"),
            "run.yaml:3:18: error: fetches more layers than are swapped");
  EXPECT_EQ(problem_of("prefetch_layers: 0\nlayers: []"),
            "run.yaml:3:18: error: prefetch_layers is `0`, must be at least `1`");
}

TEST(Reader, PointsAtPathsThroughMapsAndLists) {
  const Document document = parse_yaml({"a.yaml", "links:\n  - name: x\n  - name: yy\n"});
  Reader reader(document);
  reader.problem("links[1].name", "is odd");
  reader.problem("links[1].rate", "is absent");
  EXPECT_EQ(reader.line_of("links[1].name"), 3);
  EXPECT_THROW(reader.finish(), InputError);
  EXPECT_EQ(headline(reader.problems()[0]), "a.yaml:3:11: error: is odd");
  EXPECT_EQ(headline(reader.problems()[1]), "a.yaml:3:5: error: is absent");
}

TEST(Reader, ReadsJsonThroughTheSameStructs) {
  const std::string text =
      "{\n  \"policy\": \"none\",\n  \"budget\": \"1 GiB\",\n  \"prefetch_layers\": \"2\"\n}\n";
  try {
    read<Sample>(parse_json_document({"plan.json", text}));
    FAIL() << "text was accepted for a number";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "plan.json:4:22: error: expected a whole number, found the text `2`");
  }
}

TEST(Reader, RefusesARootThatIsNoMap) {
  EXPECT_EQ(problems_of(""), "run.yaml: error: expected a map, found nothing");
  EXPECT_EQ(problems_of("7"), "run.yaml:1:1: error: expected a map, found `7`");
}

}  // namespace
}  // namespace xt
