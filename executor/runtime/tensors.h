#pragma once

// The memory behind a schedule's buffers on one rank: resident buffers for good, others from the op
// that brings them into being to the one that ends them. Tensors handed out do not own what they
// show, so that memory is given back exactly when the schedule says, whoever still holds a handle.

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <vector>

#include "costmodel/ir/schedule.h"
#include "executor/runtime/device.h"

namespace xt {

/// ATen's name of a dtype.
at::ScalarType scalar_type(DType dtype);

/// Memory by buffer. Used by the issuing thread only.
class BufferMemory {
 public:
  /// Allocates the resident buffers, filled with zeros.
  ///
  /// Assumes: `schedule` and `device` outlive the object's use; no symbol sizes a resident buffer
  BufferMemory(const Schedule& schedule, Device& device);

  /// Allocates transient buffer `id`; its content is undefined.
  void allocate(BufferId id, const Bindings& bindings);
  /// Gives the memory of transient buffer `id` back.
  void release(BufferId id);

  /// The elements of buffer `id`, contiguous, in its three dimensions; of a view, where it lies in
  /// its parent. Valid until the memory is released.
  at::Tensor tensor(BufferId id, const Bindings& bindings) const;

  /// The elements of a buffer that no symbol sizes.
  at::Tensor tensor(BufferId id) const { return tensor(id, {}); }

 private:
  struct Place {
    BufferId root = no_buffer;
    std::int64_t offset_bytes = 0;
  };

  const Schedule& schedule_;
  Device& device_;
  std::vector<Place> places_;
  std::vector<c10::DataPtr> memory_;  ///< by buffer; null where there is none now
};

}  // namespace xt
