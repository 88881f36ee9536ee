// Checkpoints of xt-run from the outside: a run that was stopped, killed or damaged goes on as if
// nothing had been.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "executor/checkpoints/element_digest.h"
#include "tests/executor/limit.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::UnorderedElementsAre;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
  }

  std::vector<std::string> arguments(const std::string& plan, int steps,
                                     std::vector<std::string> further) const {
    further.insert(further.begin(),
                   {"train", (folder_.path() / plan).string(), "--data", data_, "--steps",
                    std::to_string(steps), "-q", "--checkpoints", checkpoints_.string()});
    return further;
  }
  Answer train(const std::string& plan, int steps, std::vector<std::string> further = {}) {
    return xt_run(folder_.path(), arguments(plan, steps, std::move(further)));
  }
  void make(const std::string& plan, const PlanChoices& choices) {
    make_plan(folder_.path() / plan, choices);
  }
  std::vector<double> losses(const std::string& plan) const {
    std::vector<double> values;
    for_each_json_line(folder_.path() / plan / metrics_file_name, [&](const Json& line) {
      values.push_back(line.at("loss").as_double());
      EXPECT_EQ(line.at("step").as_int(), std::ssize(values));
    });
    return values;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(checkpoints_))
      found.push_back(entry.path().filename().string());
    return found;
  }
  /// Turns one bit in the middle of `path`.
  static void damage(const fs::path& path) {
    std::string content = read_file(path);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
    write_file(path, content, Overwrite::allow);
  }

  TemporaryFolder folder_;
  fs::path checkpoints_ = folder_.path() / "checkpoints";
  std::string data_ = (folder_.path() / "text.txt").string();
};

TEST(ElementDigest, OfAWholeIsTheSumOverItsPartsAndKnowsPlaces) {
  const std::vector<float> whole{1, 2, 3, 4, 5};
  const std::span<const float> all(whole);
  EXPECT_EQ(element_digest("w", 0, all),
            element_digest("w", 3, all.subspan(3)) + element_digest("w", 0, all.first(3)));
  EXPECT_NE(element_digest("w", 0, all), element_digest("v", 0, all));
  const std::vector<float> swapped{2, 1, 3, 4, 5};
  EXPECT_NE(element_digest("w", 0, all), element_digest("w", 0, swapped));
}

TEST_F(Checkpoints, ContinueARunToTheSameBits) {
  make("whole", {.ranks = 2, .expert_parallel = 2});
  make("parts", {.ranks = 2, .expert_parallel = 2});
  ASSERT_EQ(train("whole", 10).exit_code, 0);
  ASSERT_EQ(train("parts", 5, {"--checkpoint-every", "2"}).exit_code, 0);
  EXPECT_THAT(names(), UnorderedElementsAre("step-4", "step-5"));
  const Answer answer = train("parts", 10, {"--checkpoint-every", "3", "--resume"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(names(), UnorderedElementsAre("step-9", "step-10"));
  EXPECT_EQ(losses("parts"), losses("whole"));
}

// Soft packs leave gaps, and groups of like packs depend on the ranks: both belong to the position.
TEST_F(Checkpoints, ContinueInTheMiddleOfAnEpochOfSoftPacks) {
  const auto plan = [](std::int64_t ranks) {
    return PlanChoices{
        .ranks = ranks, .gradient_accumulation = 2 / ranks, .pack_level = PackLevel::soft};
  };
  make("whole", plan(2));
  make("parts", plan(2));
  make("alone", plan(1));
  ASSERT_EQ(train("whole", 10).exit_code, 0);
  ASSERT_EQ(train("parts", 5, {"--checkpoint-every", "5"}).exit_code, 0);
  ASSERT_EQ(train("parts", 10, {"--resume"}).exit_code, 0);
  EXPECT_EQ(losses("parts"), losses("whole"));
  ASSERT_EQ(train("alone", 10, {"--resume"}).exit_code, 0);
  const std::vector<double> expected = losses("whole"), found = losses("alone");
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST_F(Checkpoints, ContinueOnAnotherLayout) {
  make("whole", {.ranks = 2, .expert_parallel = 2});
  make("alone", {.ranks = 1, .gradient_accumulation = 2});
  ASSERT_EQ(train("whole", 8, {"--checkpoint-every", "4"}).exit_code, 0);
  fs::remove_all(checkpoints_ / "step-8");
  const Answer answer = train("alone", 8, {"--resume"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const std::vector<double> expected = losses("whole"), found = losses("alone");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

// Of replicas, the first has a part; all ranks have the bias, and it is summed up once.
TEST_F(Checkpoints, OfARouterWithABiasContinueWithoutReplicas) {
  make("whole", {.ranks = 4, .expert_parallel = 2, .shard_ranks = 2, .has_router_bias = true});
  make("fewer", {.ranks = 2, .gradient_accumulation = 2, .has_router_bias = true});
  ASSERT_EQ(train("whole", 6, {"--checkpoint-every", "3"}).exit_code, 0);
  fs::remove_all(checkpoints_ / "step-6");
  const Answer answer = train("fewer", 6, {"--resume"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const std::vector<double> expected = losses("whole"), found = losses("fewer");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST_F(Checkpoints, ThatAreDamagedAreNamedAndTheOneBeforeIsUsed) {
  make("plan", {.ranks = 2});
  ASSERT_EQ(train("plan", 9, {"--checkpoint-every", "3", "--keep-checkpoints", "9"}).exit_code, 0);
  const std::vector<double> expected = losses("plan");
  damage(checkpoints_ / "step-9" / "exp_avg" / "model.safetensors");
  fs::resize_file(checkpoints_ / "step-6" / "weights" / "model.safetensors", 1000);
  const Answer answer = train("plan", 12, {"--resume", "--checkpoint-every", "3"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.err, AllOf(HasSubstr("step-9 is damaged and left out: elements of exp_avg"),
                                HasSubstr("step-6 is damaged and left out")));
  std::vector<double> found = losses("plan");
  found.resize(expected.size());
  EXPECT_EQ(found, expected);
  EXPECT_THAT(names(), UnorderedElementsAre("step-9", "step-12"));
}

TEST_F(Checkpoints, ThatAreAllDamagedAreRefusedOnce) {
  make("plan", {.ranks = 2});
  ASSERT_EQ(train("plan", 2, {"--checkpoint-every", "2"}).exit_code, 0);
  damage(checkpoints_ / "step-2" / "weights" / "model.safetensors");
  const Answer answer = train("plan", 4, {"--resume"});
  EXPECT_EQ(answer.exit_code, 2);
  const std::string reason = "holds no whole checkpoint";
  EXPECT_THAT(answer.err, HasSubstr(reason));
  EXPECT_EQ(answer.err.find(reason), answer.err.rfind(reason)) << answer.err;
  EXPECT_EQ(losses("plan").size(), 2u);
  damage(checkpoints_ / "step-2" / "checkpoint.json");
  EXPECT_EQ(train("plan", 4, {"--resume"}).exit_code, 2);
}

TEST_F(Checkpoints, OfOtherDataOrAnEarlierRunAreRefused) {
  make("plan", {});
  make("long", {.pack_length = 128});
  make("soft", {.pack_level = PackLevel::soft});
  make("shuffled", {.groups_by_length = false});
  ASSERT_EQ(train("plan", 2, {"--checkpoint-every", "1"}).exit_code, 0);
  EXPECT_THAT(train("long", 4, {"--resume"}).err, HasSubstr("packs of length 64"));
  EXPECT_THAT(
      train("soft", 4, {"--resume"}).err,
      HasSubstr("packs that are hard and grouped by length, this one has soft and grouped"));
  EXPECT_THAT(train("shuffled", 4, {"--resume"}).err, HasSubstr("this one has hard and shuffled"));
  EXPECT_THAT(train("long", 4, {"--checkpoint-every", "2"}).err,
              HasSubstr("holds checkpoints of an earlier run"));
  EXPECT_THAT(train("plan", 2, {"--resume"}).err, HasSubstr("leaves none of 2 to do"));
  ASSERT_EQ(train("long", 1, {"--checkpoint-every", "2", "--force"}).exit_code, 0);
  EXPECT_THAT(names(), ElementsAre("step-1")) << "those of the run that was replaced are gone";
}

TEST_F(Checkpoints, ThatFindNoRoomStopTheRunAndLeaveTheOneBefore) {
  make("whole", {.ranks = 2});
  make("plan", {.ranks = 2});
  ASSERT_EQ(train("whole", 6).exit_code, 0);
  ASSERT_EQ(train("plan", 2, {"--checkpoint-every", "2"}).exit_code, 0);
  {
    const Limit files(RLIMIT_FSIZE, 64 * 1024);
    const Answer answer = train("plan", 6, {"--checkpoint-every", "2", "--resume"});
    EXPECT_EQ(answer.exit_code, 3) << answer.err;
    EXPECT_THAT(answer.err, HasSubstr("cannot write"));
    EXPECT_THAT(answer.err, HasSubstr("File too large"));
  }
  EXPECT_TRUE(fs::exists(checkpoints_ / "step-2" / "checkpoint.json"));
  const Answer answer = train("plan", 6, {"--checkpoint-every", "2", "--resume"});
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(losses("plan"), losses("whole"));
  EXPECT_THAT(names(), UnorderedElementsAre("step-4", "step-6"));
}

TEST_F(Checkpoints, AreReadByADryRunWhichTrainsNothing) {
  make("plan", {.ranks = 2});
  ASSERT_EQ(train("plan", 4, {"--checkpoint-every", "2"}).exit_code, 0);
  const std::string metrics = read_file(folder_.path() / "plan" / metrics_file_name);
  const std::vector<std::string> resume{"--resume", "--dry-run", "--checkpoint-every", "2"};
  const Answer whole = train("plan", 6, resume);
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("step-4, which is whole"), HasSubstr("steps 5 to 6"),
                               HasSubstr("18400 tokens"), HasSubstr("2 on this host")));
  damage(checkpoints_ / "step-4" / "weights" / "model.safetensors");
  const Answer damaged = train("plan", 6, resume);
  EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("step-4 is damaged and left out: elements of weights"));
  EXPECT_THAT(damaged.out, HasSubstr("step-2, which is whole"));
  EXPECT_THAT(names(), UnorderedElementsAre("step-2", "step-4"));
  EXPECT_EQ(read_file(folder_.path() / "plan" / metrics_file_name), metrics);
  EXPECT_EQ(train("plan", 6, {"--dry-run"}).exit_code, 2) << "its numbers would be overwritten";
}

TEST_F(Checkpoints, ADryRunOfWhatThisHostHasNoMemoryForSaysNo) {
  PlanFile plan = make_plan(folder_.path() / "plan", {.ranks = 2});
  plan.prediction->peak_memory_bytes = std::int64_t{1} << 60;
  write_plan(folder_.path() / "plan", plan, Overwrite::allow);
  const Answer answer = train("plan", 4, {"--dry-run"});
  EXPECT_EQ(answer.exit_code, 1) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("does not fit"));
  const Answer document = train("plan", 4, {"--dry-run", "--json", "--checkpoint-every", "2"});
  EXPECT_EQ(document.exit_code, 1);
  // Numbers, the record of the run, logs and checkpoints.
  EXPECT_EQ(parse_json(document.out).at("writes").items().size(), 4u);
}

TEST_F(Checkpoints, StepsThatWereDoneBeforeAreNotRecordedAgain) {
  make("plan", {.ranks = 2});
  ASSERT_EQ(train("plan", 3, {"--checkpoint-every", "3"}).exit_code, 0);
  const Answer answer = train("plan", 6, {"--resume", "--record-steps", "3-5"});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.err,
              AllOf(HasSubstr("--record-steps: step 3 is done"), HasSubstr("goes on behind step 3"),
                    HasSubstr("from step 4 on"), HasSubstr("nothing was trained")));
  EXPECT_EQ(train("plan", 6, {"--resume", "--record-steps", "4-5"}).exit_code, 0);
}

TEST_F(Checkpoints, ARunThatStandsStillEndsAndNamesRankStepAndOp) {
  make("plan", {.ranks = 2});
  Program program(folder_.path(), arguments("plan", 1'000'000,
                                            {"--stall-timeout", "1", "--checkpoint-every", "1"}));
  for (int wait = 0; wait < 600 && !fs::exists(checkpoints_ / "step-2"); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::optional<pid_t> process = program.rank(1);
  ASSERT_TRUE(process.has_value());
  kill(*process, SIGSTOP);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.exit_code, 3);
  // One message: who, and which step, layer, phase and op waits for it.
  const std::string op = "`[^`]+` on lane [a-z_]+";
  const std::string place = "step [0-9]+, (between ops|" + op + "(, " + op + ")*)\n";
  EXPECT_THAT(answer.err,
              MatchesRegex("error: nothing has moved for 1 s; rank 1 is in the way of rank 0 at " +
                           place + "  rank 0: " + place + "  rank 1: does not answer\n"));
}

/// Which rank dies and when, drawn from a seed.
class Kill {
 public:
  explicit Kill(unsigned seed) : random_(seed) {}
  int rank() { return static_cast<int>(random_() % 2); }
  std::chrono::microseconds moment() { return std::chrono::microseconds(random_() % 150'000); }

 private:
  std::mt19937 random_;
};

TEST_F(Checkpoints, SurviveTheDeathOfAnyRankAtAnyMoment) {
  constexpr int n_steps = 40;
  make("whole", {.ranks = 2, .expert_parallel = 2});
  make("killed", {.ranks = 2, .expert_parallel = 2});
  ASSERT_EQ(train("whole", n_steps).exit_code, 0);
  Kill kill_at(20261130);
  for (int i = 0; i < 2; ++i) {
    fs::remove_all(checkpoints_);
    fs::remove(folder_.path() / "killed" / metrics_file_name);
    Program program(folder_.path(), arguments("killed", 1'000'000, {"--checkpoint-every", "1"}));
    for (int wait = 0; wait < 600 && !fs::exists(checkpoints_ / "step-2"); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::this_thread::sleep_for(kill_at.moment());
    const int victim = kill_at.rank();
    const std::optional<pid_t> process = program.rank(victim);
    ASSERT_TRUE(process.has_value());
    kill(*process, SIGKILL);
    const Answer answer = program.wait();
    EXPECT_EQ(answer.exit_code, 3);
    EXPECT_THAT(answer.err,
                AllOf(HasSubstr("rank " + std::to_string(victim) + " was lost during"),
                      HasSubstr("rank " + std::to_string(victim) + " was killed by signal 9")));
    const int last = static_cast<int>(losses("killed").size());
    const Answer resumed = train("killed", last + n_steps, {"--resume"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, testing::Not(HasSubstr("damaged")));
    std::vector<double> found = losses("killed");
    found.resize(n_steps);
    EXPECT_EQ(found, losses("whole"));
  }
}

}  // namespace
}  // namespace xt
