#include "executor/runtime/stream_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "costmodel/diagnostics/check.h"
#include "executor/runtime/counted_memory.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

constexpr Streams::Event anchor = 0;
constexpr Streams::Event start_of(Ticket ticket) { return 2 * std::size_t{ticket} - 1; }
constexpr Streams::Event end_of(Ticket ticket) { return 2 * std::size_t{ticket}; }

struct Issued {
  WallTime when;
  Span* span;  ///< null of an op of the host
};

class StreamDevice final : public Device {
 public:
  explicit StreamDevice(std::unique_ptr<Streams> streams) : streams_(std::move(streams)) {}

  [[nodiscard]] c10::Device place(Space space) const override { return streams_->place(space); }

  c10::DataPtr allocate(const Buffer& buffer, Bytes bytes) override {
    const auto n = static_cast<std::size_t>(bytes.value);
    return counters_->counted(streams_->allocate(buffer.space, buffer.lane, n), buffer.space,
                              buffer.category, bytes);
  }

  void clear(void* memory, Space space, Bytes bytes) override {
    if (bytes.value > 0) streams_->clear(memory, space, static_cast<std::size_t>(bytes.value));
  }

  [[nodiscard]] MemoryUsage usage() const override {
    MemoryUsage usage = counters_->usage();
    streams_->complete(usage);
    return usage;
  }
  void reset_peak() override {
    counters_->reset_peak();
    streams_->reset_peak();
  }

  // Events count from an anchor. It is taken to be reached when it is recorded at the earliest,
  // which is too early by what an idle stream takes for an event.
  void begin_step() override {
    streams_->wait_all();
    issued_.clear();
    anchored_ = steady_clock::now();
    streams_->record(anchor, Lane::compute);
    streams_->wait(anchor);
  }

  [[nodiscard]] bool runs_at_issue(Lane lane) const override {
    return lane == Lane::host || streams_->calls_at_once();
  }

  void issue(Lane lane, LaneTask task) override {
    XT_CHECK(task.ticket == issued_.size() + 1, task.ticket, issued_.size());
    issued_.push_back({steady_clock::now(), lane == Lane::host ? nullptr : task.span});
    if (lane == Lane::host) return run_on_host(task);
    for (std::size_t other = 0; other < n_lanes; ++other)
      if (task.after[other] > 0 && other != index(lane) && other != index(Lane::host))
        streams_->hold_back(lane, end_of(task.after[other]));
    streams_->record(start_of(task.ticket), lane);
    streams_->run(lane, [run = std::move(task.run)] { (void)run(); });
    streams_->record(end_of(task.ticket), lane);
  }

  // Memory is used again in the order of its lane, which is that of the op that ends it, or the
  // host has waited for all of its users. An op of another lane that begins a buffer there depends
  // on all that was issued on it: ScheduleBuilder::write.
  void before_release(Lane, Ticket) override {}

  void end_step() override {
    streams_->wait_all();
    const WallTime anchored = reached_anchor();
    for (std::size_t i = 0; i < issued_.size(); ++i) {
      Span* const span = issued_[i].span;
      if (span == nullptr) continue;
      const auto ticket = static_cast<Ticket>(i + 1);
      *span = {anchored + streams_->between(anchor, start_of(ticket)),
               anchored + streams_->between(anchor, end_of(ticket))};
    }
  }

  void copy(const at::Tensor& to, const at::Tensor& from) override { streams_->copy(to, from); }
  at::Tensor on_host(const at::Tensor& tensor) override { return streams_->on_host(tensor); }
  std::unique_ptr<Network> network(Rendezvous& rendezvous) override {
    return streams_->network(rendezvous);
  }

 private:
  // The earliest time by which no op runs before it is issued, so that none seems to run before
  // what the host waited for. It is not later than the anchor was reached.
  [[nodiscard]] WallTime reached_anchor() const {
    WallTime anchored = anchored_;
    for (std::size_t i = 0; i < issued_.size(); ++i)
      if (issued_[i].span != nullptr)
        anchored =
            std::max(anchored, issued_[i].when -
                                   streams_->between(anchor, start_of(static_cast<Ticket>(i + 1))));
    return anchored;
  }

  void run_on_host(const LaneTask& task) {
    for (std::size_t other = 0; other < n_lanes; ++other)
      if (task.after[other] > 0 && other != index(Lane::host))
        streams_->wait(end_of(task.after[other]));
    const WallTime start = steady_clock::now();
    *task.span = {start, task.run()};
  }

  std::unique_ptr<Streams> streams_;
  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
  std::vector<Issued> issued_;  ///< by ticket
  WallTime anchored_;
};

}  // namespace

std::unique_ptr<Device> stream_device(std::unique_ptr<Streams> streams) {
  return std::make_unique<StreamDevice>(std::move(streams));
}

}  // namespace xt
