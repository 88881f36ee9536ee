#pragma once

// Counts buffers of other allocators by space and category, as the CPU's allocator counts its
// own. Private to runtime/.

#include <c10/core/Allocator.h>

#include <memory>

#include "executor/runtime/allocator.h"

namespace xt {

/// The counters of one device, kept by the device and all that they count. Used by the issuing
/// thread.
class MemoryCounters : public std::enable_shared_from_this<MemoryCounters> {
 public:
  /// `memory`, counted as `bytes` of `category` in `space` until it is freed.
  c10::DataPtr counted(c10::DataPtr memory, Space space, MemoryCategory category, Bytes bytes);

  [[nodiscard]] const MemoryUsage& usage() const { return usage_; }
  void reset_peak() { usage_.reset_peak(); }

 private:
  struct Allocation;

  MemoryUsage usage_;
};

}  // namespace xt
