#pragma once

// How far one lane is, for threads that wait for it.

#include <atomic>
#include <cstdint>
#include <limits>

namespace xt {

/// Position of an op in issue order, counted from 1 since the last restart.
using Ticket = std::uint32_t;

/// The last ticket of a lane that has ended. It never falls: a lane that ends a task while another
/// one fails must not take back that nothing will come any more, or who waits for its next task
/// waits for ever.
class LaneProgress {
 public:
  /// Says that `ticket` and all before it have ended; wakes who waits for them.
  void reach(Ticket ticket) {
    Ticket now = reached_.load(std::memory_order_relaxed);
    while (now < ticket && !reached_.compare_exchange_weak(now, ticket, std::memory_order_release,
                                                           std::memory_order_relaxed)) {
    }
    reached_.notify_all();
  }

  /// Says that whatever is waited for will not come.
  void give_up() { reach(std::numeric_limits<Ticket>::max()); }

  /// Returns when `ticket` has ended, or will not.
  void wait_for(Ticket ticket) const {
    Ticket now = reached();
    while (now < ticket) {
      reached_.wait(now, std::memory_order_acquire);
      now = reached();
    }
  }

  [[nodiscard]] Ticket reached() const { return reached_.load(std::memory_order_acquire); }

  /// Counts from 1 again.
  ///
  /// Assumes: nobody waits, and nothing runs
  void restart() { reached_.store(0); }

 private:
  std::atomic<Ticket> reached_ = 0;
};

}  // namespace xt
