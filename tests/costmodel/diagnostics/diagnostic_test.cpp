#include "costmodel/diagnostics/diagnostic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace xt {
namespace {

const std::string path = "configs/runs/llama3_70b.yaml";

Diagnostic unknown_policy() {
  return {Severity::error,
          {path, 2, 11, 16},
          "unknown policy `swap_greedy_layr`",
          "did you mean `swap_greedy_layer`?"};
}

SourceText source() { return {path, "swap:\n  policy: swap_greedy_layr\n  budget: 40\n"}; }

TEST(Render, ShowsTheLineACaretTheHintAndASummary) {
  const InputError error({unknown_policy()}, {source()});
  EXPECT_EQ(render(error),
            "configs/runs/llama3_70b.yaml:2:11: error: unknown policy `swap_greedy_layr`\n"
            "   2 |   policy: swap_greedy_layr\n"
            "     |           ^^^^^^^^^^^^^^^^\n"
            "\n"
            "hint: did you mean `swap_greedy_layer`?\n"
            "\n"
            "error: 1 problem in configs/runs/llama3_70b.yaml; nothing was planned\n");
}

TEST(Render, SortsByPositionAndCounts) {
  const Diagnostic bare = {Severity::error, {path, 3, 11, 2}, "`40` has no unit"};
  const InputError error({bare, unknown_policy()}, {source()});
  EXPECT_EQ(render(error, {false, "nothing was run"}),
            "configs/runs/llama3_70b.yaml:2:11: error: unknown policy `swap_greedy_layr`\n"
            "   2 |   policy: swap_greedy_layr\n"
            "     |           ^^^^^^^^^^^^^^^^\n"
            "\n"
            "hint: did you mean `swap_greedy_layer`?\n"
            "\n"
            "configs/runs/llama3_70b.yaml:3:11: error: `40` has no unit\n"
            "   3 |   budget: 40\n"
            "     |           ^^\n"
            "\n"
            "error: 2 problems in configs/runs/llama3_70b.yaml; nothing was run\n");
}

TEST(Render, LeavesOutAPositionThatIsUnknown) {
  EXPECT_EQ(render(InputError("unknown flag `--gpus`", "did you mean `--devices`?")),
            "error: unknown flag `--gpus`\n"
            "\n"
            "hint: did you mean `--devices`?\n"
            "\n"
            "error: 1 problem; nothing was planned\n");
  EXPECT_EQ(render(InputError({error_in("a.yaml", "missing key `model`")})),
            "a.yaml: error: missing key `model`\n"
            "\n"
            "error: 1 problem in a.yaml; nothing was planned\n");
}

TEST(Render, CountsFilesWhenThereAreSeveral) {
  const InputError error({error_in("b.yaml", "is empty"), error_in("a.yaml", "is empty")});
  EXPECT_EQ(render(error),
            "b.yaml: error: is empty\n"
            "\n"
            "a.yaml: error: is empty\n"
            "\n"
            "error: 2 problems in 2 files; nothing was planned\n");
}

TEST(Render, CountsFlagsAsFlagsAndNotAsFiles) {
  const auto last_line = [](std::vector<Diagnostic> problems) {
    const std::string text = render(InputError(std::move(problems)), {.outcome = "nothing"});
    return text.substr(text.rfind("error: "));
  };
  const Diagnostic flag = error_in("--devices", "no"), other = error_in("--model", "no"),
                   file = error_in("run.yaml", "no");
  EXPECT_EQ(last_line({flag, other}), "error: 2 problems in 2 flags; nothing\n");
  EXPECT_EQ(last_line({flag, file}), "error: 2 problems in 2 places; nothing\n");
}

TEST(Render, HasNoSummaryForWarnings) {
  const std::vector<Diagnostic> warnings = {{Severity::warning, {path, 0, 0, 0}, "is old"}};
  EXPECT_EQ(render(warnings, {}), "configs/runs/llama3_70b.yaml: warning: is old\n");
}

TEST(Render, PutsTheCaretUnderTheTokenAfterTabsAndWideText) {
  const SourceText text = {"a.json", "\t\"größe\": 7\n"};
  const Diagnostic problem = {Severity::error, {"a.json", 1, 13, 1}, "unknown key `größe`"};
  EXPECT_EQ(render(std::vector{problem}, std::vector{text}),
            "a.json:1:13: error: unknown key `größe`\n"
            "   1 | \t\"größe\": 7\n"
            "     | \t         ^\n"
            "\n"
            "error: 1 problem in a.json; nothing was planned\n");
}

TEST(Render, ShowsOnlyTheNeighbourhoodOfAVeryLongLine) {
  const SourceText text = {"a.json", std::string(500, 'x') + "oops" + std::string(500, 'y')};
  const Diagnostic problem = {Severity::error, {"a.json", 1, 501, 4}, "odd"};
  const std::string shown = render(std::vector{problem}, std::vector{text});
  EXPECT_NE(shown.find("   1 | " + std::string(40, 'x') + "oops" + std::string(40, 'y') + "\n" +
                       "     | " + std::string(40, ' ') + "^^^^\n"),
            std::string::npos)
      << shown;
}

TEST(Render, ColorsTheWordsOnlyWhenAsked) {
  const std::string plain = render(InputError("no"), {});
  const std::string colored = render(InputError("no"), {true, "nothing was planned"});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(colored.find("\x1b[1;31merror\x1b[0m: no"), std::string::npos);
}

TEST(InputErrorText, IsOneLineForEachProblem) {
  const InputError error({unknown_policy(), error_in("a.yaml", "is empty")});
  EXPECT_STREQ(error.what(),
               "configs/runs/llama3_70b.yaml:2:11: error: unknown policy `swap_greedy_layr`\n"
               "a.yaml: error: is empty");
}

}  // namespace
}  // namespace xt
