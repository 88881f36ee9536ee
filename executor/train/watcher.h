#pragma once

// Notices that a run no longer moves, and finds out who is in the way.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "executor/communicators/rendezvous.h"
#include "executor/runtime/execute.h"

namespace xt {

/// Called on a thread of the watcher when nothing moves. With a text on one rank, which is to say
/// it; the run cannot go on, and the others hear of the rank that is in the way as of a lost one.
using OnStall = std::function<void(const std::optional<std::string>&)>;

/// A thread beside one that trains. When the rank has begun and ended no op for `timeout`, it asks
/// the others, through the store, which of them are not moving either: a rank that does not answer
/// is in the way, else the one that has come least far.
class Watcher {
 public:
  /// Assumes: all of these outlive the watcher
  Watcher(const Schedule& schedule, const StepActivity& activity, Rendezvous& rendezvous,
          std::chrono::seconds timeout, OnStall on_stall);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void watch();
  /// Sleeps; false when the watcher ends.
  bool pause(std::chrono::milliseconds time);
  void ask_others();

  const Schedule& schedule_;
  const StepActivity& activity_;
  Rendezvous& rendezvous_;
  std::chrono::seconds timeout_;
  OnStall on_stall_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace xt
