// Every file of this folder is wrong and says, in `# expect:` lines, which problems must be found:
// all of them, at these places, and no others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "costmodel/diagnostics/diagnostic.h"
#include "planner/estimate/estimate.h"

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
