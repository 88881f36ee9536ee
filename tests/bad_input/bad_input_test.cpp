// Every file of this folder is wrong and says, in `# expect:` lines, which problems must be found:
// all of them, at these places, and no others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "costmodel/diagnostics/diagnostic.h"
#include "planner/estimate/estimate.h"
#include "planner/validate/published_row.h"

namespace xt {
namespace {

const std::filesystem::path folder = XT_BAD_INPUT;

// The problems of planning the run in `path`, without the file's name.
std::vector<std::string> problems_of(const std::filesystem::path& path) {
  try {
    Request request(path, {});
    resolve(request, Catalogue{XT_DATA_ROOT});
  } catch (const InputError& error) {
    std::vector<std::string> found;
    for (const Diagnostic& problem : error.problems()) {
      std::string line = headline(problem);
      const std::size_t at = line.find(path.filename().string() + ":");
      found.push_back(at == std::string::npos
                          ? line.substr(line.find("error:"))
                          : line.substr(at + path.filename().string().size() + 1));
    }
    return found;
  }
  return {};
}

std::vector<std::string> expected_in(const std::filesystem::path& path) {
  constexpr std::string_view mark = "# expect: ";
  std::ifstream file(path);
  std::vector<std::string> expected;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(mark)) expected.push_back(line.substr(mark.size()));
  return expected;
}

TEST(BadInput, EveryRunFileCausesExactlyTheProblemsItNames) {
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++n_files;
    const std::vector<std::string> expected = expected_in(entry.path());
    ASSERT_FALSE(expected.empty()) << entry.path();
    EXPECT_THAT(problems_of(entry.path()), testing::UnorderedElementsAreArray(expected))
        << entry.path();
  }
  EXPECT_GE(n_files, 20);
}

std::vector<std::string> model_problems(const std::string& name) {
  try {
    Catalogue{XT_DATA_ROOT}.model((folder / name).string());
  } catch (const InputError& error) {
    std::vector<std::string> found;
    for (const Diagnostic& problem : error.problems())
      found.push_back(headline(problem).substr((folder / name).string().size() + 1));
    return found;
  }
  return {};
}

TEST(BadInput, QueryHeadsMustBeDivisibleByKeyValueHeads) {
  EXPECT_THAT(
      model_problems("heads_not_divisible.json"),
      testing::ElementsAre("4:26: error: 6 query heads are not divisible by 4 key/value heads"));
}

TEST(BadInput, AModelFileThatIsNotJsonIsRefusedAtItsPlace) {
  const std::vector<std::string> found = model_problems("not_json.json");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found.front().starts_with("3:3: error: ")) << found.front();
}

TEST(BadInput, AFieldThatChangesCostAndIsNotModelledIsRefusedByName) {
  EXPECT_THAT(model_problems("sliding_window.json"),
              testing::Contains(testing::HasSubstr("a qwen3 model has no latent attention")));
}

TEST(BadInput, SizesBeyondAllModelsAreRefused) {
  EXPECT_THAT(
      model_problems("many_layers.json"),
      testing::Contains(testing::HasSubstr("num_hidden_layers is `2000`, must be at most `1024`")));
}

TEST(BadInput, PartsOfAModelThatAreNotModelledAreRefusedByName) {
  EXPECT_THAT(
      model_problems("not_modelled.json"),
      testing::ElementsAre("6:37: error: not supported: `sliding_attention` in this layer",
                           "7:42: error: not supported: a shared expert of another width",
                           "8:28: error: angles of 7 numbers of a head, they need an even size",
                           testing::HasSubstr("not supported: a vision tower")));
  EXPECT_THAT(model_problems("no_window.json"),
              testing::UnorderedElementsAre("2:17: error: a gpt_oss model needs sliding_window",
                                            testing::HasSubstr("not supported: sliding windows")));
}

TEST(BadInput, WhatMptCanHaveAndIsNotModelledIsRefusedByName) {
  EXPECT_THAT(model_problems("gpt2_dropouts.json"),
              testing::UnorderedElementsAre(
                  "2:82: error: n_embd 66 is not divisible by 4 heads",
                  "3:18: error: not supported: dropout of the embedding alone, or of all but it",
                  "3:44: error: not supported: activation `relu`"));
  EXPECT_THAT(
      model_problems("mpt_attention.json"),
      testing::UnorderedElementsAre("3:46: error: not supported: norms of query and key",
                                    "3:65: error: not supported: keys and values of one head",
                                    "3:118: error: not supported: heads of keys and values of "
                                    "another attention than grouped_query_attention"));
}

std::vector<std::string> published_problems(const std::string& name) {
  try {
    read_published(std::vector<std::filesystem::path>{folder / name});
  } catch (const InputError& error) {
    std::vector<std::string> found;
    for (const Diagnostic& problem : error.problems())
      found.push_back(headline(problem).substr((folder / name).string().size() + 1));
    return found;
  }
  return {};
}

TEST(BadInput, FieldsOfPublishedRowsAreReadStrictly) {
  EXPECT_THAT(published_problems("published_wrong_fields.json"),
              testing::ElementsAre("12:13: error: unknown machine `h900`",
                                   "13:13: error: expected a whole number, found `many`",
                                   "36:3: error: unknown key `hidden`",
                                   "51:11: error: zero is `4`, must be at most `3`",
                                   "55:15: error: unknown recompute `ful`"));
}

TEST(BadInput, PublishedRowsThatContradictThemselvesAreRefused) {
  EXPECT_THAT(
      published_problems("published_contradictions.json"),
      testing::ElementsAre(
          "13:13: error: dp_shard · dp_replicate · tp · pp · cp is 256, but there are 128 devices",
          "48:9: error: 128 experts are not divisible by 3 ranks",
          "71:2: error: `memory` needs peak_memory_bytes",
          "71:2: error: `oom` needs oom to be true",
          testing::StartsWith("105:18: error: a model with experts needs")));
}

TEST(BadInput, PublishedRowsOfAnotherFormatAreRefusedOnce) {
  EXPECT_THAT(published_problems("published_other_schema.json"),
              testing::ElementsAre("1:12: error: schema is `published_measurements/0`, must be "
                                   "`published_measurements/1`"));
  EXPECT_THAT(published_problems("sliding_window.json"),
              testing::ElementsAre(" error: names no format"));
}

TEST(BadInput, AnIdOfPublishedRowsMayNotOccurTwice) {
  EXPECT_THAT(published_problems("published_twice.json"),
              testing::ElementsAre(testing::StartsWith("77:8: error: id `xtuner-v1-67907ff0` is")));
}

TEST(BadInput, AllProblemsOfFlagsAreReportedWithTheFlag) {
  try {
    Request request(std::nullopt, {{"swap", "some"}, {"devices", "0"}});
    FAIL() << "nothing was reported";
  } catch (const InputError& error) {
    const std::string text = render(error);
    EXPECT_THAT(text, testing::HasSubstr("--swap: error: expected `none`"));
    EXPECT_THAT(text, testing::HasSubstr("--devices: error: devices is `0`"));
  }
}

TEST(BadInput, AnglesThatAreOnlyPricedAreRefusedToWhoExecutes) {
  const std::string model = (folder / "long_angles.json").string();
  const auto plan = [&](const char* engine) {
    Request request(std::nullopt, {{"model", model}, {"machine", "h100_sxm"}, {"engine", engine}});
    resolve(request, Catalogue{XT_DATA_ROOT});
  };
  EXPECT_NO_THROW(plan("xtuner_v1"));
  try {
    plan("xt_run");
    FAIL() << "nothing was reported";
  } catch (const InputError& error) {
    const std::string text = render(error);
    EXPECT_THAT(text,
                testing::HasSubstr("xt_run scales rotary angles linearly, as Llama 3 or as YaRN"));
    EXPECT_THAT(text, testing::HasSubstr("xt_run turns whole heads"));
  }
}

TEST(BadInput, ARouterByGroupsNeedsEnoughExpertsInThem) {
  EXPECT_THAT(model_problems("router_groups.json"),
              testing::UnorderedElementsAre(
                  "6:31: error: 2 of 4 groups have too few experts for 6 of a token",
                  "6:50: error: not supported: scores by `softmax`",
                  "6:76: error: not supported: `greedy`"));
}

TEST(BadInput, ScalingOfAnglesNeedsItsNumbers) {
  EXPECT_THAT(model_problems("yarn_angles.json"),
              testing::UnorderedElementsAre(
                  "4:3: error: `original_max_position_embeddings` is not given, which yarn needs",
                  "4:3: error: beta_fast 1 must be above beta_slow 2"));
  EXPECT_THAT(model_problems("llama3_angles.json"),
              testing::UnorderedElementsAre(
                  testing::HasSubstr("`original_max_position_embeddings` is not given"),
                  testing::HasSubstr("high_freq_factor 4 must be above low_freq_factor 4")));
}

TEST(BadInput, AFlagWinsOverTheFileAndIsBlamedForItsValue) {
  Request request(folder / "sample_longer_than_pack.yaml", {{"sample_length", "9000"}});
  try {
    resolve(request, Catalogue{XT_DATA_ROOT});
    FAIL() << "nothing was reported";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("--sample-length: error: samples of 9000"));
  }
}

}  // namespace
}  // namespace xt
