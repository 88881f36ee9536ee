#pragma once

// The verbs of xt-run. Each takes plain options, prints its answer and returns the exit code;
// parsing the command line is main's affair.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/report/exit_code.h"
#include "executor/train/run.h"

namespace xt {

/// What `xt-run train` is told.
struct TrainOptions {
  std::filesystem::path plan;
  std::vector<std::filesystem::path> data;
  std::int64_t steps = 1;
  std::optional<int> n_ranks;  ///< to start on this host; the plan's if none
  std::optional<int> threads;  ///< per rank; an equal share of the cores if none
  std::string device = "cpu";  ///< as typed
  std::string record_steps;    ///< as typed
  std::optional<std::filesystem::path> weights;
  std::optional<std::filesystem::path> save_weights;
  std::optional<std::string> save_dtype;
  std::optional<std::filesystem::path>
      checkpoints;                    ///< folder; `checkpoints` of the plan's if none
  std::int64_t checkpoint_every = 0;  ///< steps; 0: never
  std::int64_t keep_checkpoints = 2;
  bool resumes = false;
  std::int64_t stall_timeout_s = 0;  ///< 0: never
  bool is_dry_run = false;
  bool may_overwrite = false;
  bool is_json = false;
  bool is_quiet = false;
  bool prints_xtuner = false;          ///< XTuner's lines of all ranks instead of one per step
  OnStall on_stall;                    ///< says so and ends this process
  std::vector<std::string> arguments;  ///< of this program, itself first: ranks are started by them
};

/// Trains a plan for real. A process that no launcher started as one of several ranks starts the
/// ranks itself, and waits for them.
///
/// Assumes: `session` outlives the report of whatever this throws
/// Throws:  InputError; PeerLost; std::exception
ExitCode train_command(const TrainOptions& options, RunSession& session);

/// Reads and checks all that a run of `n_ranks` ranks would read, and says what it would do: 1 if
/// this host or its devices have too little memory for it. Starts and writes nothing.
///
/// Throws: InputError; std::exception
ExitCode dry_run(const TrainOptions& options, const RunRequest& request, int n_ranks);

/// The physical memory of this host.
Bytes physical_memory();

/// Says how the run in `directory` stands: 1 if it failed, or its process is gone.
///
/// Throws: InputError if there is no run
ExitCode status_command(const std::filesystem::path& directory, bool is_json);

/// What this machine can run.
ExitCode devices_command(bool is_json);

}  // namespace xt
