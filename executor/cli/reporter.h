#pragma once

// What a rank says of its run while it goes on: on the terminal, and in the plan directory for
// `xt-run status`.

#include <exception>
#include <memory>
#include <string>

#include "costmodel/report/progress.h"
#include "executor/cli/commands.h"
#include "executor/observe/run_marker.h"

namespace xt {

/// The first line of what `error` says: what LibTorch throws has a stack below.
std::string failure_text(const std::exception& error);

/// One rank's reports; all but rank 0 are nearly silent.
class Reporter {
 public:
  /// Says in the plan directory that the run begins.
  ///
  /// Assumes: `options` and `request` outlive the object
  /// Throws:  std::system_error
  Reporter(const TrainOptions& options, const RunRequest& request, const RankEnvironment& place);

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
  void resumed(std::int64_t step);

  const TrainOptions& options_;
  bool is_first_;
  bool prints_steps_;
  bool shows_progress_;
  Progress progress_;
  std::shared_ptr<RunMarker> marker_;  ///< on rank 0; a watcher may use it longer than this lives
};

}  // namespace xt
