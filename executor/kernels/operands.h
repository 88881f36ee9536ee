#pragma once

// How kernels get at their operands: checked pointers, fp32 stand-ins, threads. Private to
// kernels/.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>

#include "costmodel/diagnostics/check.h"
#include "executor/kernels/kernel_table.h"

namespace xt {

/// The `n` elements of an operand.
template <typename T>
const T* elements(const at::Tensor& operand, std::int64_t n) {
  XT_CHECK(operand.numel() == n && operand.is_contiguous(), operand.numel(), n);
  return operand.const_data_ptr<T>();
}

/// The `n` elements of an operand, to be written.
template <typename T>
T* writable(const at::Tensor& operand, std::int64_t n) {
  XT_CHECK(operand.numel() == n && operand.is_contiguous(), operand.numel(), n);
  return operand.mutable_data_ptr<T>();
}

/// Calls `function` with a value of the operand's element type, fp32 or bf16.
template <typename Function>
void with_element_of(const at::Tensor& operand, const Function& function) {
  if (operand.scalar_type() == at::kFloat) {
    function(float{});
    return;
  }
  XT_CHECK(operand.scalar_type() == at::kBFloat16, static_cast<int>(operand.scalar_type()));
  function(c10::BFloat16{});
}

/// Calls `function(begin, end)` so that [0, rows) is covered, in several threads if it is worth it.
template <typename Function>
void for_rows(std::int64_t rows, std::int64_t columns, const Function& function) {
  constexpr std::int64_t elements_per_thread = 32768;
  at::parallel_for(
      0, rows, std::max<std::int64_t>(1, elements_per_thread / std::max<std::int64_t>(columns, 1)),
      function);
}

/// An uninitialised fp32 matrix in the workspace.
at::Tensor scratch(std::int64_t rows, std::int64_t columns);

/// `n` elements as fp32, rounded nowhere.
void widen(const at::Tensor& from, std::int64_t n, float* to);
void widen(const c10::BFloat16* from, std::int64_t n, float* to);

/// `n` fp32 elements as the operand's type.
void narrow(const float* from, std::int64_t n, const at::Tensor& to);
void narrow(const float* from, std::int64_t n, c10::BFloat16* to);

/// An input in fp32: the operand itself, or a copy in the workspace.
class WideInput {
 public:
  WideInput(const at::Tensor& operand, std::int64_t n);
  const float* data() const { return data_; }

 private:
  at::Tensor copy_;
  const float* data_;
};

/// An output in fp32: the operand itself, or a stand-in in the workspace that store() converts.
class WideOutput {
 public:
  enum class Reads : bool { no, yes };

  WideOutput(const at::Tensor& operand, std::int64_t n, Reads reads = Reads::no);
  float* data() const { return data_; }
  void store() const;

 private:
  at::Tensor operand_;
  std::int64_t n_;
  at::Tensor copy_;
  float* data_;
};

/// `range(in, out, begin, end)` for parts of `n` elements of a call whose operands all have so many
/// and one type; `in(i)` and `out(i)` are the data of an input and an output.
template <typename Range>
void for_elements(const KernelCall& call, std::int64_t n, const Range& range) {
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const auto in = [&](std::size_t i) { return elements<T>(call.inputs[i], n); };
    const auto out = [&](std::size_t i) { return writable<T>(call.outputs[i], n); };
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) { range(in, out, begin, end); });
  });
}

}  // namespace xt
