// `xt-run status`: what is found in a plan directory while a run goes on, when it has ended, and
// when its process is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "executor/observe/run_marker.h"
#include "executor/observe/run_status.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* step_lines =
    R"({"step":1,"loss":5.5,"step_time_s":9.0,"tokens_per_device_s":7,"mfu":0.01,"peak_memory_bytes":99,"host_memory_bytes":3}
{"step":2,"loss":null,"step_time_s":2.0,"tokens_per_device_s":32,"mfu":0.25,"peak_memory_bytes":100,"host_memory_bytes":4}
{"step":3,"loss":4.25,"step_time_s":3.0,"tokens_per_device_s":21,"mfu":0.2,"peak_memory_bytes":100,"host_memory_bytes":4}
)";

class Status : public testing::Test {
 protected:
  Status() {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
    make_plan(plan_, {.ranks = 2, .expert_parallel = 2});
  }

  Answer ask(std::vector<std::string> further = {}) {
    further.insert(further.begin(), {"status", plan_.string()});
    return xt_run(asked_.path(), std::move(further));
  }
  std::vector<std::string> training(int steps, std::vector<std::string> further = {}) {
    further.insert(further.begin(), {"train", plan_.string(), "--data", data_, "--steps",
                                     std::to_string(steps), "-q"});
    return further;
  }
  /// A record as a run of this process would leave it, and `lines` of metrics.
  RunRecord leave(RunState state, std::string_view lines) {
    RunRecord record;
    record.state = state;
    record.rank_0 = this_process();
    record.ranks = 2;
    record.steps = 10;
    record.checkpoints = (plan_ / "checkpoints").string();
    record.began_s = record.beat_s = now_s() - 1;
    write_run_record(plan_, record);
    write_file(plan_ / metrics_file_name, lines, Overwrite::allow);
    return record;
  }
  void wait_for_steps() {
    std::error_code error;
    for (int i = 0; i < 600; ++i) {
      if (std::filesystem::file_size(plan_ / metrics_file_name, error) > 1000 && !error) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL() << "no steps";
  }

  TemporaryFolder folder_, asked_;
  std::filesystem::path plan_ = folder_.path() / "plan";
  std::string data_ = (folder_.path() / "text.txt").string();
};

TEST_F(Status, TellsTheLastStepAndExtrapolatesTheLatest) {
  leave(RunState::running, step_lines);
  const double now = now_s() + 5;
  const RunStatus status = read_status(plan_, now);
  EXPECT_EQ(status.state, RunState::running);
  EXPECT_EQ(status.step(), 3);
  EXPECT_EQ(status.steps.back().loss, 4.25);
  EXPECT_FALSE(status.steps[1].loss.has_value());
  EXPECT_EQ(status.step_time(), Seconds(3));   // of 9, 2 and 3 s
  EXPECT_EQ(status.time_left(), Seconds(21));  // 7 steps of 3 s
  ASSERT_TRUE(status.since_step.has_value());
  EXPECT_NEAR(status.since_step->value, 5, 1);
}

TEST_F(Status, LeavesALineOutThatIsNotYetWhole) {
  leave(RunState::running, std::string(step_lines) + R"({"step":4,"loss":4.)");
  EXPECT_EQ(read_status(plan_, now_s()).step(), 3);
}

TEST_F(Status, ReadsTheEndOfALongFileOnly) {
  const std::string damaged = "no JSON\n";
  leave(RunState::running, damaged + step_lines);
  EXPECT_THROW((void)read_status(plan_, now_s()), InputError);
  std::string more;
  for (int i = 0; i < 200; ++i) more += step_lines;
  leave(RunState::running, damaged + more);
  EXPECT_EQ(read_status(plan_, now_s()).step(), 3);
}

TEST_F(Status, TakesNumbersThatAreOlderThanTheRunForAnothers) {
  RunRecord record = leave(RunState::running, step_lines);
  record.began_s = now_s() + 60;
  write_run_record(plan_, record);
  const RunStatus status = read_status(plan_, now_s());
  EXPECT_EQ(status.step(), 0);
  EXPECT_FALSE(status.time_left().has_value());
  EXPECT_FALSE(status.since_step.has_value());
}

TEST_F(Status, TakesAnotherProcessOfTheSameNumberForAnother) {
  RunRecord record = leave(RunState::running, step_lines);
  record.rank_0.began_ticks += 1;
  write_run_record(plan_, record);
  EXPECT_EQ(read_status(plan_, now_s()).state, RunState::gone);
}

TEST_F(Status, BelievesAnotherHostAsLongAsItsHeartBeats) {
  RunRecord record = leave(RunState::running, step_lines);
  record.rank_0.host = "elsewhere.invalid";
  write_run_record(plan_, record);
  const double beat = record.beat_s;
  EXPECT_EQ(read_status(plan_, beat + longest_silence_s - 1).state, RunState::running);
  EXPECT_EQ(read_status(plan_, beat + longest_silence_s + 1).state, RunState::gone);
}

TEST_F(Status, MarksHowARunEndedOnceOnly) {
  {
    RunMarker marker(plan_, leave(RunState::running, step_lines));
    EXPECT_EQ(read_run_record(plan_)->state, RunState::running);
    EXPECT_THROW(check_not_running(plan_), InputError);
    marker.resumed(2);
    marker.failed("the disk is full");
    marker.finished();
  }
  const RunRecord record = read_run_record(plan_).value();
  EXPECT_EQ(record.state, RunState::failed);
  EXPECT_EQ(record.reason, "the disk is full");
  EXPECT_EQ(record.resumed_behind, 2);
  EXPECT_GE(record.ended_s.value(), record.began_s);
  EXPECT_NO_THROW(check_not_running(plan_));
}

TEST_F(Status, HearsARunSayAgainAndAgainThatItLives) {
  const RunMarker marker(plan_, leave(RunState::running, step_lines), std::chrono::milliseconds(5));
  const double first = read_run_record(plan_)->beat_s;
  const auto has_beaten = [&] { return read_run_record(plan_)->beat_s > first; };
  for (int i = 0; i < 2000 && !has_beaten(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(has_beaten());
}

TEST_F(Status, FollowsARunToItsEndAndThroughAResumption) {
  ASSERT_EQ(xt_run(folder_.path(), training(4, {"--checkpoint-every", "2"})).exit_code, 0);
  const Answer ended = ask();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("finished 2"), HasSubstr("4 of 4"),
                               HasSubstr("tiny on 2 ranks"), HasSubstr("step 4, ")));
  EXPECT_EQ(ended.out.find("time left"), std::string::npos);
  ASSERT_EQ(xt_run(folder_.path(), training(6, {"--resume"})).exit_code, 0);
  const Json document = parse_json(ask({"--json"}).out);
  EXPECT_EQ(document.at("schema").as_text(), "xt.status/1");
  EXPECT_EQ(document.at("state").as_text(), "finished");
  EXPECT_EQ(document.at("step").as_int(), 6);
  EXPECT_EQ(document.at("run").at("resumed_behind").as_int(), 4);
  EXPECT_EQ(document.at("checkpoint_step").as_int(), 4);
  Json last;
  for_each_json_line(plan_ / metrics_file_name, [&](const Json& line) { last = line; });
  for (const char* key : {"loss", "mfu", "tokens_per_device_s", "peak_memory_bytes"})
    EXPECT_EQ(document.at(key), last.at(key)) << key;
}

TEST_F(Status, SeesARunThatGoesOnThenFailsThenIsGone) {
  {
    Program program(folder_.path(), training(1'000'000));
    wait_for_steps();
    const Answer running = ask();
    EXPECT_EQ(running.exit_code, 0) << running.err;
    EXPECT_THAT(running.out, AllOf(HasSubstr("running since 2"), HasSubstr("of 1000000"),
                                   HasSubstr("time left"), HasSubstr("last step")));
    const Answer second = xt_run(asked_.path(), training(3, {"--force"}));
    EXPECT_EQ(second.exit_code, 2);
    EXPECT_THAT(second.err, HasSubstr("is training this plan"));
    kill(program.rank(1).value(), SIGKILL);
    EXPECT_EQ(program.wait().exit_code, 3);
    const Answer failed = ask();
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_THAT(failed.out, AllOf(HasSubstr("failed 2"), HasSubstr("rank 1 was lost during")));
  }
  std::filesystem::remove(plan_ / metrics_file_name);
  Program program(folder_.path(), training(1'000'000));
  wait_for_steps();
  kill(program.rank(0).value(), SIGKILL);
  EXPECT_EQ(program.wait().exit_code, 3);
  const Answer gone = ask();
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.out, HasSubstr("ended without a word"));
  EXPECT_EQ(gone.out.find("time left"), std::string::npos);
}

TEST_F(Status, RefusesWhatIsNoRun) {
  const Answer unrun = ask();
  EXPECT_EQ(unrun.exit_code, 2);
  EXPECT_THAT(unrun.err, HasSubstr("holds a plan that was not run yet"));
  write_file(plan_ / run_file_name, R"({"schema": "xt.run/1", "state": "walking"})",
             Overwrite::allow);
  const Answer damaged = ask();
  EXPECT_EQ(damaged.exit_code, 2);
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("run.json:1:"), HasSubstr("walking"),
                                 HasSubstr("there is no run to tell of")));
  EXPECT_NO_THROW(check_not_running(plan_)) << "it may be trained all the same";
  const Answer none = xt_run(asked_.path(), {"status", (folder_.path() / "plam").string()});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("plan.json: error: no such file"));
}

}  // namespace
}  // namespace xt
