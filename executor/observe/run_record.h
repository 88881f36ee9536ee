#pragma once

// The file `run.json` of a plan directory: which process runs the plan, since when, and how that
// ended. Rank 0 writes it; whoever asks how the run goes reads it.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/document/reader.h"

namespace xt {

inline constexpr std::string_view run_schema = "xt.run/1";
inline constexpr std::string_view run_file_name = "run.json";

/// How a run stands. That it is gone is never written, only found: nobody was left to say so.
enum class RunState : std::uint8_t { running, finished, failed, gone };

inline constexpr std::array<std::string_view, 4> run_state_names = {"running", "finished", "failed",
                                                                    "gone"};

/// The spellings of a state.
constexpr const auto& enum_names(RunState) { return run_state_names; }

/// One life of one process; two processes of the same number began at different times.
struct ProcessIdentity {
  std::string host;
  std::int64_t process = 0;
  std::int64_t began_ticks = 0;  ///< since the host was started, as the kernel counts

  bool operator==(const ProcessIdentity&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("host", host, "Where it runs");
    archive.field("process", process, "Its number there").at_least(1);
    archive.field("began_ticks", began_ticks, "Ticks of the host until it began").at_least(0);
  }
};

/// The content of `run.json`. Moments are seconds since 1970.
struct RunRecord {
  std::string schema{run_schema};
  RunState state = RunState::running;
  std::optional<std::string> reason;  ///< of a failure, a sentence
  ProcessIdentity rank_0;
  std::int64_t ranks = 1;
  std::int64_t steps = 0;           ///< at which the run is finished
  std::int64_t resumed_behind = 0;  ///< the step behind which it went on; 0: it began anew
  std::string checkpoints;          ///< their folder
  double began_s = 0;
  double beat_s = 0;  ///< when the process last said that it lives
  std::optional<double> ended_s;

  bool operator==(const RunRecord&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of this file");
    archive.field("state", state, "How the run stands");
    archive.field("reason", reason, "Why it failed");
    archive.field("rank_0", rank_0, "Process that writes this");
    archive.field("ranks", ranks, "Ranks of the run").at_least(1);
    archive.field("steps", steps, "Steps until it is finished").at_least(1);
    archive.field("resumed_behind", resumed_behind, "Step that it went on behind").at_least(0);
    archive.field("checkpoints", checkpoints, "Folder of its checkpoints");
    archive.field("began_s", began_s, "When it began").at_least(0);
    archive.field("beat_s", beat_s, "When it last was known to live").at_least(0);
    archive.field("ended_s", ended_s, "When it ended").at_least(0);
  }
};

/// How often a running process renews `beat_s`, and after how long without it is taken for gone.
inline constexpr std::int64_t beat_interval_s = 5;
inline constexpr std::int64_t longest_silence_s = 30;

/// Seconds since 1970 now.
double now_s();

/// This process.
ProcessIdentity this_process();

/// Whether the process of `record` still runs at the moment `now`. Asks the kernel on its own host;
/// from elsewhere, one that has been silent for long is taken for gone.
///
/// Assumes: clocks of hosts agree to some seconds
bool is_alive(const RunRecord& record, double now);

/// The record in `directory`, if there is one.
///
/// Throws: InputError if it is damaged or of another format
std::optional<RunRecord> read_run_record(const std::filesystem::path& directory);

/// Makes `record` that of `directory`; readers see the old one or this.
///
/// Throws: std::system_error
void write_run_record(const std::filesystem::path& directory, const RunRecord& record);

/// Throws: InputError if a process that lives is running the plan in `directory`; a record that is
///         damaged says of none
void check_not_running(const std::filesystem::path& directory);

}  // namespace xt
