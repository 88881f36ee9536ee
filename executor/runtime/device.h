#pragma once

// Where the ops of a rank run and its buffers lie. One thread of a rank issues ops and takes and
// gives back memory; when an op runs is the device's affair: at once or on a thread of its lane
// (cpu_device.h), or on a stream of a device of its own. Knows no op and no kernel.

#include <c10/core/Allocator.h>

#include <memory>

#include "costmodel/ir/schedule.h"
#include "executor/communicators/communicator.h"
#include "executor/communicators/rendezvous.h"
#include "executor/runtime/allocator.h"
#include "executor/runtime/lanes.h"

namespace xt {

/// A device of one rank. All members are called by the issuing thread.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Where tensors in `space` lie, in LibTorch's terms.
  [[nodiscard]] virtual c10::Device place(Space space) const = 0;

  /// `bytes` for `buffer`, to be used by the op that is issued next and by later ones. The memory
  /// is used again in the order of the buffer's lane.
  virtual c10::DataPtr allocate(const Buffer& buffer, Bytes bytes) = 0;

  /// Makes `bytes` of a buffer in `space` zero, before the first op.
  virtual void clear(void* memory, Space space, Bytes bytes) = 0;

  /// What is allocated, as allocator.h counts it.
  [[nodiscard]] virtual MemoryUsage usage() const = 0;
  /// Makes the peak of every space what it holds now.
  virtual void reset_peak() = 0;

  /// Counts tickets from 1 again.
  ///
  /// Assumes: all that was issued has ended
  virtual void begin_step() = 0;

  /// Whether an op of `lane` runs before issue() returns, or is put into the lane's order by its
  /// `run` before then.
  [[nodiscard]] virtual bool runs_at_issue(Lane lane) const = 0;

  /// Has `task` run on `lane` behind what it must be after. Tickets rise.
  ///
  /// Throws: what a failed op threw
  virtual void issue(Lane lane, LaneTask task) = 0;

  /// Returns when buffers that end with op `ticket` of `lane` may be given back.
  virtual void before_release(Lane lane, Ticket ticket) = 0;

  /// Returns when all that was issued has ended and every span is written.
  ///
  /// Throws: what a failed op threw
  virtual void end_step() = 0;

  /// Copies as many bytes as `to` has, in the order of the op that runs.
  virtual void copy(const at::Tensor& to, const at::Tensor& from) = 0;

  /// The elements of `tensor` where the host can read them.
  ///
  /// Assumes: the host has waited for what wrote it
  virtual at::Tensor on_host(const at::Tensor& tensor) = 0;

  /// The network over which this device's tensors travel; null where it is Gloo's.
  virtual std::unique_ptr<Network> network(Rendezvous& rendezvous) = 0;
};

}  // namespace xt
