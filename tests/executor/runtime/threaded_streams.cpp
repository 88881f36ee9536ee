#include "tests/executor/runtime/threaded_streams.h"

#include <ATen/ATen.h>

#include <array>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace xt {
namespace {

using std::chrono::steady_clock;

/// Blocks by lane and size; the last one given back is the first to be used again.
struct Pools {
  std::array<std::map<std::size_t, std::vector<std::byte*>>, n_lanes> free;
  std::vector<std::unique_ptr<std::byte[]>> all;
};

struct Block {
  std::shared_ptr<Pools> pools;
  Space space;
  std::size_t lane, bytes;
  std::byte* memory;

  static void give_back(void* context) {
    const std::unique_ptr<Block> of(static_cast<Block*>(context));
    if (of->space == Space::device) of->pools->free[of->lane][of->bytes].push_back(of->memory);
  }
};

/// One record of an event.
struct Point {
  bool is_reached = false;
  steady_clock::time_point when;
};

class ThreadedStreams final : public Streams {
 public:
  ThreadedStreams() {
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      threads_.emplace_back([this, lane] { run_queue(lane); });
  }
  ~ThreadedStreams() override {
    {
      const std::scoped_lock lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadedStreams(const ThreadedStreams&) = delete;
  ThreadedStreams& operator=(const ThreadedStreams&) = delete;

  [[nodiscard]] c10::Device place(Space) const override { return c10::kCPU; }

  c10::DataPtr allocate(Space space, Lane lane, std::size_t bytes) override {
    const std::size_t rounded = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    const auto of = static_cast<std::size_t>(lane);
    std::vector<std::byte*>& free = pools_->free[of][rounded];
    std::byte* memory = nullptr;
    if (space == Space::device && !free.empty()) {
      memory = free.back();
      free.pop_back();
    } else {
      pools_->all.push_back(std::make_unique<std::byte[]>(rounded));
      memory = pools_->all.back().get();
    }
    auto block = std::make_unique<Block>(Block{pools_, space, of, rounded, memory});
    return {memory, block.release(), &Block::give_back, c10::kCPU};
  }

  void clear(void* memory, Space, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void complete(MemoryUsage&) const override {}
  void reset_peak() override {}

  [[nodiscard]] bool calls_at_once() const override { return false; }
  void run(Lane lane, const std::function<void()>& work) override { push(lane, work); }

  void record(Event event, Lane lane) override {
    while (events_.size() <= event) events_.emplace_back();
    events_[event] = std::make_shared<Point>();
    push(lane, [this, point = events_[event]] {
      const std::scoped_lock lock(mutex_);
      point->is_reached = true;
      point->when = steady_clock::now();
      changed_.notify_all();
    });
  }
  void hold_back(Lane lane, Event event) override {
    push(lane, [this, point = events_[event]] { await(*point); });
  }
  void wait(Event event) override { await(*events_[event]); }

  void wait_all() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_pending_ == 0; });
  }

  [[nodiscard]] std::chrono::nanoseconds between(Event earlier, Event later) const override {
    return events_[later]->when - events_[earlier]->when;
  }

  void copy(const at::Tensor& to, const at::Tensor& from) override {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  }
  at::Tensor on_host(const at::Tensor& tensor) override { return tensor; }
  std::unique_ptr<Network> network(Rendezvous&) override { return nullptr; }

 private:
  void push(Lane lane, std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    queues_[static_cast<std::size_t>(lane)].push_back(std::move(work));
    ++n_pending_;
    changed_.notify_all();
  }

  void await(const Point& point) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return point.is_reached; });
  }

  void run_queue(std::size_t lane) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_closed_ || !queues_[lane].empty(); });
      if (queues_[lane].empty()) return;
      std::function<void()> work = std::move(queues_[lane].front());
      queues_[lane].pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      --n_pending_;
      changed_.notify_all();
    }
  }

  std::shared_ptr<Pools> pools_ = std::make_shared<Pools>();
  std::vector<std::shared_ptr<Point>> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<std::function<void()>>, n_lanes> queues_;
  std::size_t n_pending_ = 0;
  bool is_closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Streams> threaded_streams() { return std::make_unique<ThreadedStreams>(); }

}  // namespace xt
