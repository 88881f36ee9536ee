// What goes wrong around a run: memory that is not to be had, weights that cannot be read, ranks
// that die. Who is left says what it was, ends by itself, and leaves nothing half-written.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "costmodel/io/files.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/ir/memory.h"
#include "tests/executor/limit.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Faults : public testing::Test {
 protected:
  Faults() { write_text(400); }

  void write_text(int lines) {
    std::string text;
    for (int line = 0; line < lines; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
  }
  std::vector<std::string> arguments(int steps, std::vector<std::string> further) const {
    further.insert(further.begin(), {"train", plan_.string(), "--data", data_, "--steps",
                                     std::to_string(steps), "-q"});
    return further;
  }
  Answer train(int steps, std::vector<std::string> further = {}) {
    return xt_run(folder_.path(), arguments(steps, std::move(further)));
  }
  void expect_refusal(const Answer& answer, const std::string& reason) {
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    EXPECT_THAT(answer.err, AllOf(HasSubstr(reason), HasSubstr("nothing was trained")));
    EXPECT_EQ(answer.err.find(reason), answer.err.rfind(reason)) << "said once: " << answer.err;
    EXPECT_FALSE(fs::exists(plan_ / metrics_file_name));
  }
  /// Waits until rank 0 has written the numbers of some steps.
  bool has_steps() const {
    for (int i = 0; i < 600; ++i) {
      std::error_code error;
      if (fs::file_size(plan_ / metrics_file_name, error) > 1000 && !error) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  TemporaryFolder folder_;
  fs::path plan_ = folder_.path() / "plan";
  std::string data_ = (folder_.path() / "text.txt").string();
};

// --- memory ---

TEST_F(Faults, APlanThatNeedsMoreHostMemoryThanItAllowsIsRefusedAtTheLimit) {
  PlanFile plan = make_plan(plan_, {.ranks = 2, .swaps = true});
  const Schedule schedule = read_schedule(plan_ / schedule_file_name);
  const Bytes need = memory_peak(schedule, assumed_bindings(schedule), Space::host).peak;
  ASSERT_GT(need, Bytes(0));
  plan.host_memory_bytes = need.value - 1;
  write_plan(plan_, plan, Overwrite::allow);
  const Answer answer = train(2);
  expect_refusal(answer, "a rank may hold");
  EXPECT_THAT(answer.err, AllOf(HasSubstr("plan.json:"), HasSubstr("hint: plan with fewer")));
  plan.host_memory_bytes = need.value;
  write_plan(plan_, plan, Overwrite::allow);
  EXPECT_THAT(train(2, {"--dry-run"}).out, HasSubstr("that the plan allows"));
  EXPECT_EQ(train(2).exit_code, 0) << "what it needs is enough";
}

TEST_F(Faults, MemoryThatTheSystemRefusesEndsAllRanksAndIsNamedWithWhatWantedIt) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer itself takes more address space than any limit leaves";
#endif
  write_text(30'000);
  make_plan(plan_, {.ranks = 2, .pack_length = 1 << 20, .hidden_size = 2048});
  const Limit memory(RLIMIT_AS, rlim_t{6} << 30);
  const Answer answer = train(1, {"--checkpoint-every", "1"});
  EXPECT_EQ(answer.exit_code, 3) << answer.err;
  EXPECT_THAT(answer.err, AllOf(HasSubstr("out of memory: the system gives no 8 GiB more"),
                                HasSubstr("are held: "), HasSubstr("; wanted by `")));
  EXPECT_FALSE(fs::exists(plan_ / "checkpoints" / "step-1"));
}

// --- weights ---

TEST_F(Faults, WeightsThatCannotBeReadAreRefusedByTheFileThatIsWrong) {
  make_plan(plan_, {.ranks = 2});
  const fs::path saved = folder_.path() / "saved";
  ASSERT_EQ(train(1, {"--save-weights", saved.string()}).exit_code, 0);
  fs::remove(plan_ / metrics_file_name);
  const fs::path file = saved / "model.safetensors";
  const std::vector<std::string> start{"--weights", saved.string()};
  fs::resize_file(file, fs::file_size(file) - 100);
  expect_refusal(train(1, start), "model.safetensors: error: tensor `");
  fs::remove(file);
  fs::create_directory(file);
  expect_refusal(train(1, start), "model.safetensors: error: cannot be read: Is a directory");
  fs::remove(file);
  expect_refusal(train(1, start), "saved: error: holds neither model.safetensors");
  write_file(saved / "model.safetensors.index.json",
             R"({"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}})",
             Overwrite::allow);
  expect_refusal(train(1, start),
                 "model-00001-of-00002.safetensors: error: cannot be read: No such file");
}

// --- deaths ---

TEST_F(Faults, ARankThatWasKilledIsNamedWithWhatItWasAtAndTheOthersEndByThemselves) {
  make_plan(plan_, {.ranks = 3});
  Program program(folder_.path(), arguments(1'000'000, {}));
  ASSERT_TRUE(has_steps());
  kill(program.rank(1).value(), SIGKILL);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.exit_code, 3);
  EXPECT_THAT(answer.err, HasSubstr("error: rank 1 was killed by signal 9 (Killed) in step "));
  EXPECT_THAT(answer.err, HasSubstr("note: rank 0 failed with exit code 3, "
                                    "rank 2 failed with exit code 3"));
}

/// A port of this host that nobody listens on.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

/// Ranks that nobody launched together: each is a process of this test, as under Slurm or torchrun.
class LooseRanks {
 public:
  LooseRanks(const fs::path& folder, int n_ranks, std::vector<std::string> arguments)
      : folder_(folder), n_ranks_(n_ranks), port_(free_port()), arguments_(std::move(arguments)) {}

  void start(int rank) {
    const fs::path own = folder_ / ("rank" + std::to_string(rank));
    create_folder(own);
    const std::vector<std::string> variables{"RANK=" + std::to_string(rank),
                                             "LOCAL_RANK=" + std::to_string(rank),
                                             "WORLD_SIZE=" + std::to_string(n_ranks_),
                                             "LOCAL_WORLD_SIZE=" + std::to_string(n_ranks_),
                                             "MASTER_ADDR=127.0.0.1",
                                             "MASTER_PORT=" + std::to_string(port_),
                                             "OMP_NUM_THREADS=1"};
    ranks_.push_back(std::make_unique<Program>(own, arguments_, variables));
  }
  Program& rank(int rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }

 private:
  fs::path folder_;
  int n_ranks_;
  int port_;
  std::vector<std::string> arguments_;
  std::vector<std::unique_ptr<Program>> ranks_;
};

TEST_F(Faults, WithoutALauncherEachSurvivorEndsByItselfAndNamesTheDead) {
  make_plan(plan_, {.ranks = 3});
  LooseRanks ranks(folder_.path(), 3, arguments(1'000'000, {}));
  for (int rank = 0; rank < 3; ++rank) ranks.start(rank);
  ASSERT_TRUE(has_steps());
  kill(ranks.rank(2).process(), SIGKILL);
  for (const int survivor : {0, 1}) {
    const Answer answer = ranks.rank(survivor).wait();
    EXPECT_EQ(answer.exit_code, 3) << answer.err;
    EXPECT_THAT(answer.err, HasSubstr("rank 2 was lost during"));
  }
}

TEST_F(Faults, ARankThatFailsAloneSaysWhyAndIsNamedByTheOther) {
  make_plan(plan_, {.ranks = 2});
  LooseRanks ranks(folder_.path(), 2, arguments(1'000, {"--checkpoint-every", "1"}));
  ranks.start(0);
  {
    const Limit files(RLIMIT_FSIZE, 64 * 1024);
    ranks.start(1);
  }
  const Answer poor = ranks.rank(1).wait();
  EXPECT_EQ(poor.exit_code, 3);
  EXPECT_THAT(poor.err, AllOf(HasSubstr("error: rank 1: "), HasSubstr("File too large")));
  const Answer rich = ranks.rank(0).wait();
  EXPECT_EQ(rich.exit_code, 3);
  EXPECT_THAT(rich.err, HasSubstr("rank 1 was lost during"));
  EXPECT_FALSE(fs::exists(plan_ / "checkpoints" / "step-1")) << "none is half-written";
}

}  // namespace
}  // namespace xt
