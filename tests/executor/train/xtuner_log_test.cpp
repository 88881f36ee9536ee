// Logs as XTuner V1 writes them: its lines, its tracker, and the same numbers as metrics.jsonl.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "executor/observe/xtuner_log.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double gib = 1024.0 * 1024 * 1024;

StepMetrics some_step() {
  StepMetrics metrics;
  metrics.step = 30;
  metrics.loss = 1.60625;
  metrics.balance_loss = 0.015625;
  metrics.grad_norm = 12.398;
  metrics.learning_rate = 4e-5;
  metrics.time = Seconds(2);
  metrics.mfu = 0.25;
  metrics.reserved_memory = Bytes(std::int64_t{44} << 30);  // of two ranks
  metrics.own = {Seconds(1),
                 Seconds(0.0516),
                 2,
                 4096,
                 8192,
                 0.125,
                 Bytes(std::int64_t{18} << 30),
                 Bytes(0),
                 Bytes(std::int64_t{22} << 30)};
  return metrics;
}

// The template of XTuner's current lines; numbers are those of the step above.
TEST(XtunerLog, WritesALineAsXtunerDoes) {
  const StepPlace place{8, 200'000, 8192, 2, Seconds(4)};
  EXPECT_EQ(xtuner_message(some_step(), place),
            "Epoch 2 Step 30/200000 data_time: 0.0516 lr: 4.000000e-05 time: 1.0000 "
            "text_tokens: 4096 seqlen_tokens: 8192 approximate_total_consumed_tokens: 983040 "
            "reduced_llm_loss: 1.60625000, reduced_balancing_loss: 0.01562500 "
            "step_consumed_tokens: 4096.00000000, step_seqlen_tokens: 8192.00000000, "
            "efficient_attn_ratio: 0.12500000 grad_norm: 12.39800000 max_memory: 18.00 GB "
            "reserved_memory: 22.00 GB tgs: 4096.0 seqlen_tgs: 8192.0 exp_tgs: 2048.0 "
            "eta: 2 days, 7:32:50");  // 199970 s
}

TEST(XtunerLog, PutsTheRankIntoLinesOfAConsoleOnly) {
  const std::regex on_console(
      R"(\[XTuner\]\[RANK 3\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\[INFO\] hello)");
  const std::regex in_file(R"(\[XTuner\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\[INFO\] hello)");
  EXPECT_TRUE(std::regex_match(xtuner_line("hello", 3), on_console));
  EXPECT_TRUE(std::regex_match(xtuner_line("hello"), in_file));
}

TEST(XtunerLog, CountsUtilisationByTheRanksOwnTime) {
  const Json line = tracker_line(some_step(), {8, 100, 8192, 2, Seconds(4)});
  EXPECT_EQ(line.at("runtime_info/mfu").as_double(), 0.5);  // half the time of the slowest rank
  EXPECT_EQ(line.at("time/eta_seconds").as_double(), 70);
  EXPECT_EQ(line.at("loss/reduced_balancing_loss").as_double(), 0.015625);
}

/// What a reader of XTuner's logs finds in one line: numbers behind names, in any order.
std::map<std::string, double> numbers(const std::string& line) {
  const std::regex pair(R"(([A-Za-z_/]+): (-?[0-9.]+(?:e[-+]\d+)?))");
  std::map<std::string, double> found;
  for (std::sregex_iterator one(line.begin(), line.end(), pair), end; one != end; ++one)
    found[(*one)[1]] = std::strtod((*one)[2].str().c_str(), nullptr);
  return found;
}

class XtunerLogs : public testing::Test {
 protected:
  XtunerLogs() {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
    make_plan(plan_, {.ranks = 2, .expert_parallel = 2, .gradient_accumulation = 2});
  }

  Answer train(int steps, std::vector<std::string> further = {}) {
    further.insert(further.begin(),
                   {"train", plan_.string(), "--data", data_, "--steps", std::to_string(steps)});
    return xt_run(folder_.path(), std::move(further));
  }
  static std::vector<Json> lines_of(const std::filesystem::path& path) {
    std::vector<Json> lines;
    for_each_json_line(path, [&](const Json& line) { lines.push_back(line); });
    return lines;
  }
  /// By step, the numbers of rank `rank`'s log; every line is of the form that is documented.
  std::map<int, std::map<std::string, double>> logged(int rank) const {
    const std::regex prefix(
        R"(\[XTuner\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\[INFO\] (?:Epoch \d+ Step (\d+)/(\d+) (.*eta: \d+:\d\d:\d\d)|grad_accumulation_steps: 2|Training finished in .* seconds))");
    std::map<int, std::map<std::string, double>> steps;
    std::istringstream text(read_file(log_path(plan_, rank)));
    for (std::string line; std::getline(text, line);) {
      std::smatch parts;
      EXPECT_TRUE(std::regex_match(line, parts, prefix)) << line;
      if (!parts[1].matched) continue;
      EXPECT_FALSE(steps.contains(std::stoi(parts[1]))) << "twice: " << line;
      steps[std::stoi(parts[1])] = numbers(parts[3]);
    }
    return steps;
  }

  TemporaryFolder folder_;
  std::filesystem::path plan_ = folder_.path() / "plan";
  std::string data_ = (folder_.path() / "text.txt").string();
};

TEST_F(XtunerLogs, HoldTheNumbersOfMetrics) {
  ASSERT_EQ(train(3).exit_code, 0);
  const std::vector<Json> metrics = lines_of(plan_ / metrics_file_name);
  std::vector<std::vector<Json>> trackers;
  for (int rank = 0; rank < 2; ++rank) trackers.push_back(lines_of(tracker_path(plan_, rank)));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto largest = [&](const char* key) {
      return std::max(trackers[0][i].at(key).as_double(), trackers[1][i].at(key).as_double());
    };
    EXPECT_EQ(largest("time/step_time"), metrics[i].at("step_time_s").as_double());
    EXPECT_EQ(largest("memory/max_memory_GB") * gib,
              metrics[i].at("peak_memory_bytes").as_double());
    EXPECT_EQ(largest("memory/host_GB") * gib, metrics[i].at("host_memory_bytes").as_double());
    EXPECT_EQ(trackers[0][i].at("communication/all_gather_exposed_s"),
              metrics[i].at("communication").at("all_gather").at("exposed_s"));
    for (const std::vector<Json>& tracker : trackers) {
      EXPECT_EQ(tracker[i].at("step"), metrics[i].at("step"));
      EXPECT_EQ(tracker[i].at("lr"), metrics[i].at("learning_rate"));
      EXPECT_EQ(tracker[i].at("grad_norm"), metrics[i].at("grad_norm"));
      EXPECT_EQ(tracker[i].at("loss/reduced_llm_loss"), metrics[i].at("loss"));
      EXPECT_GE(tracker[i].at("runtime_info/mfu").as_double(),
                metrics[i].at("mfu").as_double() * (1 - 1e-12));
      EXPECT_EQ(tracker[i].at("runtime_info/seqlen_tokens").as_int(), 128);  // two packs of 64
      EXPECT_LE(tracker[i].at("runtime_info/text_tokens").as_int(), 128);
    }
  }
}

TEST_F(XtunerLogs, HoldTheNumbersOfTheTrackerInTheFormOfXtuner) {
  ASSERT_EQ(train(3).exit_code, 0);
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<Json> tracker = lines_of(tracker_path(plan_, rank));
    const auto steps = logged(rank);
    ASSERT_EQ(steps.size(), 3u);
    for (const Json& line : tracker) {
      const std::map<std::string, double>& found =
          steps.at(static_cast<int>(line.at("step").as_int()));
      const auto expect_near = [&](const char* name, const char* key, double digit) {
        EXPECT_NEAR(found.at(name), line.at(key).as_double(), 0.51 * digit) << name;
      };
      expect_near("data_time", "time/data_time", 1e-4);
      expect_near("time", "time/step_time", 1e-4);
      expect_near("lr", "lr", 1e-9);
      expect_near("text_tokens", "runtime_info/text_tokens", 0);
      expect_near("seqlen_tokens", "runtime_info/seqlen_tokens", 0);
      expect_near("approximate_total_consumed_tokens",
                  "runtime_info/approximate_total_consumed_tokens", 0);
      expect_near("reduced_llm_loss", "loss/reduced_llm_loss", 1e-8);
      expect_near("efficient_attn_ratio", "runtime_info/efficient_attn_ratio", 1e-8);
      expect_near("grad_norm", "grad_norm", 1e-8);
      expect_near("max_memory", "memory/max_memory_GB", 1e-2);
      expect_near("reserved_memory", "memory/reserved_memory_GB", 1e-2);
      expect_near("tgs", "runtime_info/tgs", 0.1);
      expect_near("seqlen_tgs", "runtime_info/seqlen_tgs", 0.1);
      expect_near("exp_tgs", "runtime_info/exp_tgs", 0.1);
    }
  }
}

TEST_F(XtunerLogs, TellTokensOfSamplesFromPaddedOnes) {
  make_plan(plan_, {.gradient_accumulation = 2, .pack_level = PackLevel::soft});
  // Samples of 40 tokens, of which a pack of 64 holds one.
  std::string lines;
  for (int line = 0; line < 20; ++line) {
    lines += R"({"input_ids": [1)";
    for (int token = 1; token < 40; ++token) lines += ",1";
    lines += "]}\n";
  }
  write_file(folder_.path() / "lines.jsonl", lines, Overwrite::allow);
  data_ = (folder_.path() / "lines.jsonl").string();
  ASSERT_EQ(train(1, {"--threads", "1"}).exit_code, 0);
  const Json step = lines_of(tracker_path(plan_, 0)).front();
  EXPECT_EQ(step.at("runtime_info/text_tokens").as_int(), 80);
  EXPECT_EQ(step.at("runtime_info/seqlen_tokens").as_int(), 128);
  EXPECT_NEAR(step.at("runtime_info/seqlen_tgs").as_double(),
              step.at("runtime_info/tgs").as_double() * 1.6, 1e-6 * 128e3);
}

TEST_F(XtunerLogs, HaveEveryStepOnceAfterAResumption) {
  ASSERT_EQ(train(5, {"--checkpoint-every", "3"}).exit_code, 0);
  std::filesystem::remove_all(plan_ / "checkpoints" / "step-5");
  ASSERT_EQ(train(6, {"--resume"}).exit_code, 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<int> tracked, steps;
    for (const Json& line : lines_of(tracker_path(plan_, rank)))
      tracked.push_back(static_cast<int>(line.at("step").as_int()));
    for (const auto& [step, values] : logged(rank)) steps.push_back(step);
    EXPECT_THAT(tracked, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(XtunerLogs, StandOnTheConsoleOfAllRanksWhereThatIsAskedFor) {
  const Answer answer = train(2, {"--xtuner-lines"});
  ASSERT_EQ(answer.exit_code, 0);
  for (const char* rank : {"[RANK 0][", "[RANK 1]["}) EXPECT_THAT(answer.err, HasSubstr(rank));
  EXPECT_THAT(answer.err, HasSubstr("[INFO] Epoch 1 Step 2/2 data_time: "));
  EXPECT_EQ(answer.out.find("step 2  loss"), std::string::npos);
  EXPECT_EQ(train(2, {"--xtuner-lines", "-q", "--force"}).err, "");
}

}  // namespace
}  // namespace xt
