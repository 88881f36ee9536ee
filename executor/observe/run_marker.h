#pragma once

// Says in a plan directory that a run goes on, as long as it does, and how it ended.

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "executor/observe/run_record.h"

namespace xt {

/// Keeps `run.json` from the beginning of a run to its end; a thread of its own says from time to
/// time that the process lives. A run that is given up without a word is left as running, and found
/// to be gone.
class RunMarker {
 public:
  /// Writes `record`, its process and moments filled in, and says every `interval` that it lives.
  ///
  /// Throws: std::system_error
  RunMarker(std::filesystem::path directory, RunRecord record,
            std::chrono::milliseconds interval = std::chrono::seconds(beat_interval_s));
  ~RunMarker();
  RunMarker(const RunMarker&) = delete;
  RunMarker& operator=(const RunMarker&) = delete;

  /// The run goes on behind `step`.
  ///
  /// Throws: std::system_error
  void resumed(std::int64_t step);
  /// The run did all its steps.
  ///
  /// Throws: std::system_error
  void finished();
  /// The run failed, because of `reason`. Throws nothing: the failure is what counts.
  void failed(const std::string& reason);

 private:
  void beat();
  void end(RunState state, const std::string& reason);

  std::filesystem::path directory_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RunRecord record_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace xt
