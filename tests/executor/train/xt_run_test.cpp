// xt-run from the outside: what it writes, what it refuses, and what it does when a rank dies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "costmodel/io/timeline_lines.h"
#include "executor/weights/safetensors.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class XtRun : public testing::Test {
 protected:
  XtRun() {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
  }

  Answer train(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", plan_.string()});
    return xt_run(folder_.path(), std::move(arguments));
  }
  Answer train_on(const std::string& data, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(), {"--data", data, "--steps", "3"});
    return train(std::move(arguments));
  }
  void expect_refusal(const Answer& answer, const std::string& reason) {
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    EXPECT_THAT(answer.err, AllOf(HasSubstr(reason), HasSubstr("nothing was trained")));
    EXPECT_EQ(answer.err.find(reason), answer.err.rfind(reason)) << "said once: " << answer.err;
    EXPECT_FALSE(std::filesystem::exists(plan_ / metrics_file_name));
    EXPECT_FALSE(std::filesystem::exists(plan_ / measured_file_name));
  }
  std::vector<double> losses() const {
    std::vector<double> values;
    for_each_json_line(plan_ / metrics_file_name,
                       [&](const Json& line) { values.push_back(line.at("loss").as_double()); });
    return values;
  }

  TemporaryFolder folder_;
  std::filesystem::path plan_ = folder_.path() / "plan";
  std::string data_ = (folder_.path() / "text.txt").string();
};

TEST_F(XtRun, TrainsOnTwoRanksAndRecordsBoth) {
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2});
  const Answer answer = train_on(data_, {"--record-steps", "2-3"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("step 3  loss"), HasSubstr("predicted"),
                                HasSubstr("exposed all_gather"), HasSubstr("pairs of tokens")));
  EXPECT_NEAR(losses().front(), std::log(256), 0.2);
  EXPECT_LT(losses().back(), losses().front());
  for (const char* file : {"measured.jsonl", "measured.rank1.jsonl"}) {
    const TimelineFile recorded = read_timelines(plan_ / file);
    ASSERT_EQ(recorded.timelines.size(), 2u);
    EXPECT_EQ(recorded.timelines[0].step, 2);
    EXPECT_LT(std::abs(recorded.clock_offsets[0].count()), 1'000'000'000);
    EXPECT_GT(recorded.step_starts[0].count(), 0);  // step 1 began the run's clock
    if (recorded.timelines[0].rank != 0) continue;
    EXPECT_GE(recorded.step_starts[1] - recorded.step_starts[0], makespan(recorded.timelines[0]));
  }
}

TEST_F(XtRun, GivesTheSameLossesOnAnyLayout) {
  make_plan(plan_, {.ranks = 1, .gradient_accumulation = 2, .groups_by_length = false});
  ASSERT_EQ(train_on(data_).exit_code, 0);
  const std::vector<double> alone = losses();
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2, .groups_by_length = false});
  ASSERT_EQ(train_on(data_, {"--force"}).exit_code, 0);
  ASSERT_EQ(losses().size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_NEAR(losses()[i], alone[i], 1e-5 * alone[i]);
}

TEST_F(XtRun, SavesWeightsThatItStartsFromAgain) {
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2});
  const std::string saved = (folder_.path() / "saved").string();
  ASSERT_EQ(train_on(data_, {"--save-weights", saved}).exit_code, 0);
  const std::vector<std::int64_t> shape{32, 32};
  EXPECT_EQ(Weights(saved).at("model.layers.1.mlp.experts.3.gate_proj.weight", shape).shape, shape);
  const double last = losses().back();
  ASSERT_EQ(train_on(data_, {"--weights", saved, "--force"}).exit_code, 0);
  EXPECT_LT(losses().front(), last + 0.1);
}

TEST_F(XtRun, SkipsStepsWhoseGradientsAreNoNumbersAndChangesNothing) {
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2});
  const std::filesystem::path saved = folder_.path() / "saved", after = folder_.path() / "after";
  ASSERT_EQ(train_on(data_, {"--save-weights", saved.string()}).exit_code, 0);
  std::string file = read_file(saved / "model.safetensors");
  const std::size_t last = file.size() - sizeof(float);
  const float broken = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(file.data() + last, &broken, sizeof(broken));
  write_file(saved / "model.safetensors", file, Overwrite::allow);
  const Answer answer =
      train_on(data_, {"--force", "--weights", saved.string(), "--save-weights", after.string()});
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("skipped: nothing was updated"));
  EXPECT_THAT(answer.err, HasSubstr("3 of 3 steps updated nothing"));
  for_each_json_line(plan_ / metrics_file_name,
                     [](const Json& line) { EXPECT_TRUE(line.at("skipped").as_bool()); });
  EXPECT_EQ(read_file(after / "model.safetensors"), file);
}

TEST_F(XtRun, AnswersWithOneDocument) {
  make_plan(plan_, {});
  const Answer answer = train_on(data_, {"--json"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const Json document = parse_json(answer.out);
  EXPECT_EQ(document.at("steps").items().size(), 3u);
  EXPECT_GT(document.at("measured").at("mfu").as_double(), 0);
}

TEST_F(XtRun, RefusesAMissingDataFile) {
  make_plan(plan_, {.ranks = 2});
  expect_refusal(train_on((folder_.path() / "texd.txt").string()),
                 "texd.txt: error: cannot be read");
}

TEST_F(XtRun, RefusesDataShorterThanAPack) {
  make_plan(plan_, {.ranks = 2, .pack_length = 65536});
  expect_refusal(train_on(data_), "65536");
}

TEST_F(XtRun, RefusesAPlanForOtherRanks) {
  make_plan(plan_, {.ranks = 2});
  expect_refusal(train_on(data_, {"--nproc", "3"}), "is for 2 ranks, this run has 3");
}

TEST_F(XtRun, RefusesAPlanThatIsOnlyPriced) {
  PlanFile plan = make_plan(plan_, {});
  plan.engine = "xtuner_v1";
  write_plan(plan_, plan, Overwrite::allow);
  expect_refusal(train_on(data_), "engine `xtuner_v1`, which is priced and not executed");
  plan.engine = "xt_run";
  plan.compute_dtype = DType::fp16;
  write_plan(plan_, plan, Overwrite::allow);
  expect_refusal(train_on(data_), "computes in fp16");
}

TEST_F(XtRun, RefusesAPlanOfAnotherFormat) {
  PlanFile plan = make_plan(plan_, {});
  plan.schema = "xt.plan/0";
  write_plan(plan_, plan, Overwrite::allow);
  expect_refusal(train_on(data_), "is of format `xt.plan/0`, expected `xt.plan/4`");
}

TEST_F(XtRun, RefusesAScheduleThatThePlanDoesNotName) {
  make_plan(plan_, {.ranks = 2});
  const std::string schedule = read_file(plan_ / schedule_file_name);
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2});
  write_file(plan_ / schedule_file_name, schedule, Overwrite::allow);
  expect_refusal(train_on(data_), "is not the schedule that plan.json names");
}

TEST_F(XtRun, RefusesAMissingPlanAndStepsOutOfRange) {
  expect_refusal(train_on(data_), "plan.json: error: no such file");
  make_plan(plan_, {});
  expect_refusal(train_on(data_, {"--record-steps", "4"}), "step 4 is not one of 1 to 3");
}

TEST_F(XtRun, DoesNotOverwriteWithoutForce) {
  make_plan(plan_, {});
  ASSERT_EQ(train_on(data_).exit_code, 0);
  const std::string before = read_file(plan_ / metrics_file_name);
  const Answer answer = train_on(data_);
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.err, HasSubstr("--force"));
  EXPECT_EQ(read_file(plan_ / metrics_file_name), before);
}

TEST_F(XtRun, StopsAndNamesARankThatDied) {
  make_plan(plan_, {.ranks = 3});
  Program program(folder_.path(), {"train", plan_.string(), "--data", data_, "--steps", "1000000",
                                   "-q", "--record-steps", "1"});
  const auto has_steps = [&] {
    std::error_code error;
    return std::filesystem::file_size(plan_ / metrics_file_name, error) > 1000 && !error;
  };
  for (int i = 0; i < 600 && !has_steps(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::optional<pid_t> victim = program.rank(1);
  ASSERT_TRUE(victim.has_value());
  kill(*victim, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const Answer answer = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(15));
  EXPECT_EQ(answer.exit_code, 3);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("rank 1 was lost during"),
                                HasSubstr("rank 1 was killed by signal 9")));
  EXPECT_FALSE(std::filesystem::exists(plan_ / measured_file_name));
}

TEST_F(XtRun, SaysWhatTheMachineCanRun) {
  const Answer answer = xt_run(folder_.path(), {"devices", "--json"});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_EQ(parse_json(answer.out).at("schema").as_text(), "xt.devices/1");
  EXPECT_EQ(xt_run(folder_.path(), {"trane"}).exit_code, 2);
}

}  // namespace
}  // namespace xt
