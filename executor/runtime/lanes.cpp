#include "executor/runtime/lanes.h"

#include <condition_variable>
#include <deque>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

/// What waits to be run on one lane.
struct Lanes::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<LaneTask> tasks;
  bool is_closed = false;

  void push(LaneTask task) {
    const std::scoped_lock lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_one();
  }

  void close() {
    const std::scoped_lock lock(mutex);
    is_closed = true;
    changed.notify_one();
  }

  /// The next task; false when there will be none.
  bool pop(LaneTask& task) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_closed || !tasks.empty(); });
    if (tasks.empty()) return false;
    task = std::move(tasks.front());
    tasks.pop_front();
    return true;
  }
};

/// What the threads share; outlives them all.
struct Lanes::Shared {
  std::array<LaneProgress, n_lanes> ended;
  std::array<Queue, n_lanes> queues;
  std::atomic<bool> has_failed = false;
  std::mutex mutex;
  std::exception_ptr error;

  /// Wakes everybody: nothing that was waited for will come.
  void fail(std::exception_ptr what) {
    {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::move(what);
    }
    has_failed = true;
    for (LaneProgress& lane : ended) lane.give_up();
  }

  /// Whether all of `tickets` have ended; false after a failure.
  bool wait(const Tickets& tickets) {
    for (std::size_t lane = 0; lane < n_lanes; ++lane) ended[lane].wait_for(tickets[lane]);
    return !has_failed;
  }

  void run(std::size_t lane, LaneTask task) {
    if (!wait(task.after)) return;
    try {
      const WallTime start = std::chrono::steady_clock::now();
      *task.span = {start, task.run()};
    } catch (const std::exception&) {
      return fail(std::current_exception());
    }
    task.run = nullptr;  // whatever it holds is gone before anybody hears of the end
    ended[lane].reach(task.ticket);
  }
};

Lanes::Lanes(const std::function<void()>& begin) : shared_(std::make_shared<Shared>()) {
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    if (is_inline(static_cast<Lane>(lane))) continue;
    threads_.emplace_back([shared = shared_, lane, begin] {
      begin();
      LaneTask task;
      while (shared->queues[lane].pop(task)) shared->run(lane, std::move(task));
    });
  }
}

Lanes::~Lanes() {
  for (Queue& queue : shared_->queues) queue.close();
  for (std::thread& thread : threads_) {
    if (shared_->has_failed) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void Lanes::restart() {
  XT_CHECK(!shared_->has_failed);
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    XT_CHECK(shared_->ended[lane].reached() >= submitted_[lane], lane);
    shared_->ended[lane].restart();
  }
  submitted_ = {};
}

void Lanes::submit(Lane lane, LaneTask task) {
  XT_CHECK(!is_inline(lane) && task.ticket > submitted_[index(lane)], task.ticket);
  submitted_[index(lane)] = task.ticket;
  shared_->queues[index(lane)].push(std::move(task));
}

void Lanes::end_inline(Lane lane, Ticket ticket) {
  XT_CHECK(is_inline(lane) && ticket > submitted_[index(lane)], ticket);
  submitted_[index(lane)] = ticket;
  shared_->ended[index(lane)].reach(ticket);
}

void Lanes::wait(const Tickets& tickets) {
  if (shared_->wait(tickets)) return;
  const std::scoped_lock lock(shared_->mutex);
  std::rethrow_exception(shared_->error);
}

void Lanes::wait_all() { wait(submitted_); }

}  // namespace xt
