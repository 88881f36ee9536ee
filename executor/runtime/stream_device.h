#pragma once

// A device whose ops run in the order of streams, one for each lane, while the issuing thread goes
// on: it waits only for what a host op needs, and at the end of a step. Knows no device library.

#include <chrono>
#include <functional>
#include <memory>

#include "executor/runtime/device.h"

namespace xt {

/// In-order queues by lane, and events that order them: what a library of devices brings.
class Streams {
 public:
  /// A point in the order of some stream; made when first recorded, moved when recorded again.
  using Event = std::size_t;

  Streams() = default;
  virtual ~Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  [[nodiscard]] virtual c10::Device place(Space space) const = 0;

  /// Memory that is used again at once when it was given back, in the order of the stream of `lane`
  /// in device space, and behind copies from and to it in host space.
  virtual c10::DataPtr allocate(Space space, Lane lane, std::size_t bytes) = 0;
  virtual void clear(void* memory, Space space, std::size_t bytes) = 0;
  /// Adds what only the device's allocator knows to a count of buffers.
  virtual void complete(MemoryUsage& usage) const = 0;
  virtual void reset_peak() = 0;

  /// Whether `work` is called before run() returns and puts itself into the order of the stream.
  [[nodiscard]] virtual bool calls_at_once() const = 0;
  /// Has `work` run in the order of the stream of `lane`.
  virtual void run(Lane lane, const std::function<void()>& work) = 0;
  /// Makes `event` the end of what the stream of `lane` has been given so far.
  virtual void record(Event event, Lane lane) = 0;
  /// Has what the stream of `lane` is given from here on wait for `event` as it was recorded last.
  virtual void hold_back(Lane lane, Event event) = 0;
  /// Returns when `event` is reached.
  virtual void wait(Event event) = 0;
  /// Returns when all streams are idle.
  virtual void wait_all() = 0;
  /// From `earlier` to `later`; both are reached.
  [[nodiscard]] virtual std::chrono::nanoseconds between(Event earlier, Event later) const = 0;

  /// As in Device, within an op that runs.
  virtual void copy(const at::Tensor& to, const at::Tensor& from) = 0;
  virtual at::Tensor on_host(const at::Tensor& tensor) = 0;
  virtual std::unique_ptr<Network> network(Rendezvous& rendezvous) = 0;
};

/// The device of `streams`.
std::unique_ptr<Device> stream_device(std::unique_ptr<Streams> streams);

}  // namespace xt
