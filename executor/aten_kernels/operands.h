#pragma once

// How kernels in terms of ATen get at their operands. Private to aten_kernels/.

#include <ATen/ATen.h>

#include "costmodel/diagnostics/check.h"
#include "executor/kernels/kernel_table.h"

namespace xt {

/// Input `i` of a call in the dimensions of its row.
inline at::Tensor in(const KernelCall& call, std::size_t i, at::IntArrayRef shape) {
  return call.inputs[i].view(shape);
}

/// Output `i` of a call in the dimensions of its row.
inline at::Tensor out(const KernelCall& call, std::size_t i, at::IntArrayRef shape) {
  return call.outputs[i].view(shape);
}

/// The tensor in fp32: itself, or a copy.
inline at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

/// Whether the tensor is on a device with kernels of its own, where waiting for a value is dear.
inline bool is_accelerated(const at::Tensor& tensor) { return !tensor.device().is_cpu(); }

/// Options of a tensor of `type` beside `tensor`.
inline at::TensorOptions beside(const at::Tensor& tensor, at::ScalarType type = at::kFloat) {
  return tensor.options().dtype(type);
}

/// True where the sum of squares [1] is a number: what is not true is not updated.
inline at::Tensor is_update(const at::Tensor& square_sum) {
  return square_sum.view(at::IntArrayRef()).isfinite();
}

}  // namespace xt
