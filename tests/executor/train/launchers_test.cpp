// Ranks that others start: torchrun and Open MPI themselves, and the variables of Slurm.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Variables of what this process starts while it lives.
class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  Variables variables_;
};

/// A port that nobody else on this machine has tried lately.
std::string some_port() { return std::to_string(20000 + getpid() % 12000); }

class Launchers : public testing::Test {
 protected:
  Launchers() {
    make_plan(plan_, {.ranks = 2});
    std::string text;
    for (int line = 0; line < 200; ++line) text += fmt::format("line {} of some text\n", line);
    write_file(text_, text, Overwrite::allow);
  }

  std::vector<std::string> arguments(std::int64_t steps) const {
    return {"train", plan_.string(), "--data", text_, "--steps", std::to_string(steps)};
  }
  std::size_t n_steps() const {
    std::size_t n = 0;
    if (std::filesystem::exists(plan_ / metrics_file_name))
      for_each_json_line(plan_ / metrics_file_name, [&](const Json&) { ++n; });
    return n;
  }
  std::unique_ptr<Program> rank(int rank, std::int64_t steps, Variables variables) {
    const Environment environment(std::move(variables));
    const std::filesystem::path folder = folder_.path() / std::to_string(rank);
    create_folder(folder);
    return std::make_unique<Program>(folder, arguments(steps));
  }
  /// `launcher` with `options` starts two ranks of `line`, a line of a shell that runs "$@".
  std::unique_ptr<Program> launch(const std::string& launcher, std::vector<std::string> options,
                                  const std::string& line, std::int64_t steps) {
    options.insert(options.end(), {"sh", "-c", line, "sh", XT_RUN});
    const std::vector<std::string> ours = arguments(steps);
    options.insert(options.end(), ours.begin(), ours.end());
    return std::make_unique<Program>(folder_.path(), std::move(options), std::vector<std::string>{},
                                     launcher);
  }
  std::unique_ptr<Program> torchrun(const std::string& line, std::int64_t steps) {
    return launch(XT_TORCHRUN,
                  {"--no-python", "--nproc-per-node", "2", "--master-port", some_port()}, line,
                  steps);
  }
  std::unique_ptr<Program> mpirun(const std::string& line, std::int64_t steps) {
    return launch(XT_MPIRUN,
                  {"--allow-run-as-root", "--oversubscribe", "-n", "2", "-x",
                   "MASTER_PORT=" + some_port(), "--mca", "odls_base_sigkill_timeout", "4"},
                  line, steps);
  }
  void wait_for_steps(std::size_t n) const {
    for (int i = 0; i < 3000 && n_steps() < n; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GE(n_steps(), n);
  }

  TemporaryFolder folder_;
  std::filesystem::path plan_ = folder_.path() / "plan";
  std::string text_ = (folder_.path() / "text.txt").string();
};

Variables slurm(int rank) {
  return {{"SLURM_PROCID", std::to_string(rank)},  {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_LOCALID", std::to_string(rank)}, {"SLURM_STEP_TASKS_PER_NODE", "2"},
          {"SLURM_STEP_NODELIST", "localhost"},    {"SLURM_JOB_ID", std::to_string(getpid())}};
}

TEST_F(Launchers, OfSlurmTellRanksWhereTheyMeet) {
  const auto second = rank(1, 3, slurm(1)), first = rank(0, 3, slurm(0));
  const Answer answer = first->wait();
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(second->wait().exit_code, 0);
  EXPECT_EQ(n_steps(), 3U);
}

TEST_F(Launchers, OfSlurmLeaveTheOthersToNameTheRankThatWasKilled) {
  const auto second = rank(1, 5000, slurm(1)), first = rank(0, 5000, slurm(0));
  wait_for_steps(2);
  kill(second->process(), SIGKILL);
  const Answer answer = first->wait();
  EXPECT_EQ(answer.exit_code, 3);
  EXPECT_THAT(answer.err, HasSubstr("rank 1 was lost during"));
}

TEST_F(Launchers, OfTorchRunRanks) {
  if (std::string_view(XT_TORCHRUN).empty()) GTEST_SKIP() << "no torchrun beside LibTorch";
  const Answer answer = torchrun("exec \"$@\"", 3)->wait();
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(n_steps(), 3U);
}

TEST_F(Launchers, OfTorchLeaveTheOthersToNameTheRankThatWasKilled) {
  if (std::string_view(XT_TORCHRUN).empty()) GTEST_SKIP() << "no torchrun beside LibTorch";
  const std::string told = (folder_.path() / "told").string();
  const auto program =
      torchrun(fmt::format("trap : TERM; \"$@\" & echo $! > {0}$RANK; wait $!; code=$?; "
                           "[ $code -le 128 ] || {{ wait $!; code=$?; }}; "
                           "echo rank $RANK ended with $code >&2; exit $code",
                           told),
               5000);
  wait_for_steps(2);
  kill(static_cast<pid_t>(std::stoi(read_file(told + "1"))), SIGKILL);
  const Answer answer = program->wait();
  EXPECT_NE(answer.exit_code, 0);
  EXPECT_THAT(answer.err,
              AllOf(HasSubstr("rank 1 was lost during"), HasSubstr("rank 0 ended with 3")));
}

TEST_F(Launchers, OfOpenMpiRunRanks) {
  if (std::string_view(XT_MPIRUN).empty()) GTEST_SKIP() << "no mpirun";
  const Answer answer = mpirun("exec \"$@\"", 3)->wait();
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(n_steps(), 3U);
}

TEST_F(Launchers, OfOpenMpiLeaveTheOthersToNameTheRankThatWasKilled) {
  if (std::string_view(XT_MPIRUN).empty()) GTEST_SKIP() << "no mpirun";
  const std::string told = (folder_.path() / "told").string();
  const auto program =
      mpirun(fmt::format("echo $$ > {}$OMPI_COMM_WORLD_RANK; exec \"$@\"", told), 5000);
  wait_for_steps(2);
  kill(static_cast<pid_t>(std::stoi(read_file(told + "1"))), SIGKILL);
  const Answer answer = program->wait();
  EXPECT_NE(answer.exit_code, 0);
  EXPECT_THAT(answer.err, HasSubstr("rank 1 was lost during"));
}

}  // namespace
}  // namespace xt
