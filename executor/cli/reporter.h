#pragma once

// What a rank says of its run while it goes on: on the terminal, and in the plan directory for
// `xt-run status` and for what reads XTuner's logs.

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "costmodel/report/progress.h"
#include "executor/cli/commands.h"
#include "executor/observe/run_marker.h"
#include "executor/observe/xtuner_log.h"

namespace xt {

/// The first line of what `error` says: what LibTorch throws has a stack below.
std::string failure_text(const std::exception& error);

/// One rank's reports; all but rank 0 are nearly silent.
class Reporter {
 public:
  /// Says in the plan directory that the run begins.
  ///
  /// Assumes: the arguments outlive the object
  /// Throws:  std::system_error
  Reporter(const TrainOptions& options, const RunRequest& request, const PlanFile& plan,
           const RankEnvironment& place);

  /// Hears of the run; belongs to this object.
  RunListener listener();
  /// All steps are done.
  ///
  /// Throws: std::system_error
  void finished();
  /// The run ends with `error`.
  void failed(const std::exception& error);

 private:
  void step(const StepMetrics& metrics);
  void log(const StepMetrics& metrics);
  void begin_log(const StepMetrics& first);
  void resumed(std::int64_t step);

  const TrainOptions& options_;
  const RunRequest& request_;
  const PlanFile& plan_;
  int rank_;
  bool is_first_;
  bool prints_steps_;
  bool shows_progress_;
  Progress progress_;
  std::int64_t resumed_behind_ = 0;
  StepPlace place_;
  std::chrono::steady_clock::time_point began_;  ///< with the data of the first step
  std::optional<XtunerLog> log_;                 ///< from the first step on
  std::shared_ptr<RunMarker> marker_;  ///< on rank 0; a watcher may use it longer than this lives
};

}  // namespace xt
