#pragma once

// Lanes as in-order queues. The issuing thread runs compute and host ops itself; every other lane
// has a thread that runs what was submitted to it, one after the other. Knows no op, no kernel and
// no LibTorch, so that a sanitizer of threads can look at it alone.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "costmodel/ir/schedule.h"
#include "executor/runtime/lane_progress.h"

namespace xt {

using WallTime = std::chrono::steady_clock::time_point;

/// Per lane, the ticket that must have ended; 0 for none.
using Tickets = std::array<Ticket, n_lanes>;

/// When a task ran.
struct Span {
  WallTime start;
  WallTime end;
};

/// Work for one lane.
struct LaneTask {
  Ticket ticket = 0;
  Tickets after{};
  std::function<WallTime()> run;  ///< returns when it was done
  Span* span = nullptr;           ///< written before the ticket ends
};

/// Whether ops of `lane` run on the issuing thread.
constexpr bool is_inline(Lane lane) { return lane == Lane::host || lane == Lane::compute; }

/// The lanes of a rank. A failure in one lane stops all of them for good.
class Lanes {
 public:
  /// Each thread calls `begin` before its first task.
  explicit Lanes(const std::function<void()>& begin = [] {});
  /// Waits for what runs; leaves it behind when a lane has failed, because it may never end.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Counts tickets from 1 again.
  ///
  /// Assumes: all that was submitted has ended
  void restart();

  /// Hands `task` to the thread of `lane`; tickets of a lane rise.
  void submit(Lane lane, LaneTask task);

  /// Says that an op that the issuing thread ran has ended.
  void end_inline(Lane lane, Ticket ticket);

  /// Returns when all of `tickets` have ended.
  ///
  /// Throws: what a failed lane threw
  void wait(const Tickets& tickets);

  /// Returns when everything submitted so far has ended.
  ///
  /// Throws: what a failed lane threw
  void wait_all();

 private:
  struct Queue;
  struct Shared;

  std::shared_ptr<Shared> shared_;
  Tickets submitted_{};
  std::vector<std::thread> threads_;
};

}  // namespace xt
