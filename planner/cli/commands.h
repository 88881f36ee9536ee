#pragma once

// The verbs of xt-plan. Each takes plain options, prints its answer and returns the exit code;
// parsing the command line is main's affair.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/report/exit_code.h"
#include "costmodel/report/style.h"
#include "planner/plan/plan.h"

namespace xt {

/// What every verb is told.
struct Surroundings {
  Catalogue catalogue;
  Style style;
  bool is_json = false;
  bool shows_progress = false;  ///< on standard error
};

/// A run file and the flags that override it.
struct RunOptions {
  std::optional<std::filesystem::path> file;
  std::vector<std::pair<std::string, std::string>> flags;  ///< by field name, as typed
};

/// Which run to estimate, and whether to price what would lower its peak.
struct EstimateOptions {
  RunOptions run;
  bool prices = false;
};

/// Whether a run fits, how long a step takes and where its time and memory go; of one that does not
/// fit, also how it would.
ExitCode estimate_command(const EstimateOptions& options, const Surroundings& around);

/// What to schedule and where to write it.
struct ScheduleOptions {
  RunOptions run;
  std::optional<std::filesystem::path> out;
  bool may_overwrite = false;
};

/// The schedule of a run, printed; with `out` a plan directory that xt-run executes.
ExitCode schedule_command(const ScheduleOptions& options, const Surroundings& around);

/// What to search and where to write the best.
struct SearchOptions {
  RunOptions run;
  std::optional<std::int64_t> tokens_per_step;
  std::int64_t n_ranked = 10;
  std::optional<std::filesystem::path> out;
  bool may_overwrite = false;
};

/// The best of all steps that a run leaves open; with `out` its plan directory.
ExitCode search_command(const SearchOptions& options, const Surroundings& around);

/// Which measured plan to compare.
struct CompareOptions {
  std::filesystem::path plan;
  std::optional<std::filesystem::path> trace;
  bool may_overwrite = false;
};

/// Predicted against measured, and which ops the difference comes from.
ExitCode compare_command(const CompareOptions& options, const Surroundings& around);

/// Which measured plans to fit and to score.
struct CalibrateOptions {
  std::vector<std::filesystem::path> fit_on;
  std::vector<std::filesystem::path> score_on;
  std::filesystem::path out;
  bool may_overwrite = false;
};

/// Fits one scale per kernel to measured plans and scores it on others.
ExitCode calibrate_command(const CalibrateOptions& options, const Surroundings& around);

/// Which published rows to price, and which of them to explain.
struct ValidateOptions {
  std::vector<std::filesystem::path> files;
  std::optional<std::string> explain;
};

/// Predictions against published training steps; with `explain` one row and its estimate.
ExitCode validate_command(const ValidateOptions& options, const Surroundings& around);

/// What there is: models, machines, engines, or the keys of a run file.
ExitCode list_command(const std::string& what, const Surroundings& around);

}  // namespace xt
