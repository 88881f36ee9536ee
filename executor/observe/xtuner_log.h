#pragma once

// Steps as XTuner V1 logs them, so that what reads its logs reads ours: a line of text a step, and
// a line of tracker.jsonl. Its `GB` are GiB, and its tokens those of one rank. In the tracker stand
// mfu, exposed communication and memory by space and category beside its keys; numbers are exact
// there, where it rounds some.
//
// Source: github.com/InternLM/xtuner, xtuner/v1/train/trainer.py (`_log_step`) and
//         xtuner/v1/utils/logger.py

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "executor/observe/step_metrics.h"

namespace xt {

/// Where a step stands in its run, on one rank.
struct StepPlace {
  std::int64_t ranks = 1;
  std::int64_t steps = 1;       ///< of the run
  std::int64_t run_tokens = 0;  ///< of samples that this rank read since the process trains
  std::int64_t run_steps = 1;   ///< since then, with this one
  Seconds train_time;           ///< since then
};

/// A step as text, without what a logger puts before it.
std::string xtuner_message(const StepMetrics& metrics, const StepPlace& place);

/// A step as a line of `tracker.jsonl`.
Json tracker_line(const StepMetrics& metrics, const StepPlace& place);

/// `message` as the logger of `rank` shows it on a console, or without a rank as in a file. The
/// moment is now.
std::string xtuner_line(const std::string& message, std::optional<int> rank = {});

/// What rank `rank` logs of a run of the plan in `directory`.
std::filesystem::path log_path(const std::filesystem::path& directory, int rank);
std::filesystem::path tracker_path(const std::filesystem::path& directory, int rank);

/// The files of one rank, written line by line.
class XtunerLog {
 public:
  /// Files that go on behind step `resumed_behind` of what is there, or are new where that is 0.
  ///
  /// Throws: std::system_error; all functions do
  XtunerLog(const std::filesystem::path& directory, int rank, std::int64_t resumed_behind);

  /// Adds a line to the log.
  void say(const std::string& message);
  /// Adds a step to both.
  void step(const StepMetrics& metrics, const StepPlace& place);

 private:
  LineFile log_;
  LineFile tracker_;
};

}  // namespace xt
