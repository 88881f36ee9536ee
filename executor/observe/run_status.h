#pragma once

// How a run stands, from what lies in its plan directory: the record of its process, the numbers of
// its last steps, its checkpoints. Asks nobody, so that a run is not disturbed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/io/plan_file.h"
#include "costmodel/units/quantity.h"
#include "executor/observe/run_record.h"

namespace xt {

/// The numbers of one step, as a line of `metrics.jsonl` has them.
struct StepLine {
  std::int64_t step = 0;
  std::optional<double> loss;  ///< none where it was no finite number
  Seconds time;
  double tokens_per_device_s = 0;
  double mfu = 0;
  Bytes peak_memory;  ///< of the device, the largest of all ranks
  Bytes host_memory;
};

/// A run at one moment.
struct RunStatus {
  RunState state = RunState::running;
  RunRecord record;
  PlanFile plan;
  std::vector<StepLine> steps;             ///< the last that are done, the latest last
  std::optional<Seconds> since_step;       ///< that the latest has ended, if this run did it
  std::optional<std::int64_t> checkpoint;  ///< the step of the latest

  /// Steps that are done.
  [[nodiscard]] std::int64_t step() const;
  /// The median time of the latest steps, if there are any.
  [[nodiscard]] std::optional<Seconds> step_time() const;
  /// How much longer it takes if steps go on as the latest did; only of one that runs.
  [[nodiscard]] std::optional<Seconds> time_left() const;
};

/// How the run in `directory` stands at the moment `now` (seconds since 1970). Numbers that are
/// older than the run are another's and left out, as is a line that is not yet whole.
///
/// Throws: InputError if `directory` holds no plan, no run of it, or a damaged one
RunStatus read_status(const std::filesystem::path& directory, double now);

}  // namespace xt
