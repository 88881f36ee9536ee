#include "executor/observe/run_marker.h"

#include <exception>
#include <utility>

namespace xt {

RunMarker::RunMarker(std::filesystem::path directory, RunRecord record,
                     std::chrono::milliseconds interval)
    : directory_(std::move(directory)), interval_(interval), record_(std::move(record)) {
  record_.state = RunState::running;
  record_.rank_0 = this_process();
  record_.began_s = record_.beat_s = now_s();
  write_run_record(directory_, record_);
  thread_ = std::thread([this] { beat(); });
}

RunMarker::~RunMarker() {
  {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void RunMarker::beat() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval_, [this] { return has_ended_; })) {
    record_.beat_s = now_s();
    try {
      write_run_record(directory_, record_);
    } catch (const std::exception&) {
      continue;  // a full disk is for those to report who have more to write
    }
  }
}

void RunMarker::resumed(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  record_.resumed_behind = step;
  write_run_record(directory_, record_);
}

void RunMarker::finished() { end(RunState::finished, {}); }

void RunMarker::failed(const std::string& reason) {
  try {
    end(RunState::failed, reason);
  } catch (const std::exception&) {
    return;  // then the run is found to be gone
  }
}

void RunMarker::end(RunState state, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(has_ended_, true)) return;
  record_.state = state;
  if (!reason.empty()) record_.reason = reason;
  record_.ended_s = record_.beat_s = now_s();
  write_run_record(directory_, record_);
}

}  // namespace xt
