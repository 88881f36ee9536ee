// Matrix products of activations and weights. Operands that are not fp32 are widened first: CPUs
// without bf16 instructions multiply bf16 some fifty times slower than fp32.

#include "executor/kernels/gemm.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/row_sums.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// Rows of y begin as the bias, so that the product adds to it.
template <typename T>
void begin_with(const T* bias, std::int64_t rows, std::int64_t n, float* y) {
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) widen_row(bias, n, y + row * n);
  });
}

void matmul(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  const WideInput x(call.inputs[0], m * k), weight(call.inputs[1], n * k);
  const WideOutput y(call.outputs[0], m * n);
  const bool has_bias = call.inputs.size() > 2;
  if (has_bias)
    with_element_of(call.inputs[2], [&](auto element) {
      begin_with(elements<decltype(element)>(call.inputs[2], n), m, n, y.data());
    });
  gemm(m, n, k, {x.data(), k}, {weight.data(), k, true}, {y.data(), n, has_bias ? 1.0f : 0.0f});
  y.store();
}

void sum_rows(const KernelCall& call) {
  const std::int64_t rows = call.extent(0), n = call.extent(1);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const T* dy = elements<T>(call.inputs[0], rows * n);
    T* sum = writable<T>(call.outputs[0], n);
    for_rows(n, rows, [&](std::int64_t begin, std::int64_t end) {
      sum_columns(dy, rows, n, begin, end, sum);
    });
  });
}

template <WideOutput::Reads adds>
void input_backward(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  const WideInput dy(call.inputs[0], m * n), weight(call.inputs[1], n * k);
  const WideOutput dx(call.outputs[0], m * k, adds);
  gemm(m, k, n, {dy.data(), n}, {weight.data(), k},
       {dx.data(), k, adds == WideOutput::Reads::yes ? 1.0f : 0.0f});
  dx.store();
}

template <WideOutput::Reads adds>
void weight_backward(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  const WideInput dy(call.inputs[0], m * n), x(call.inputs[1], m * k);
  const WideOutput dweight(call.outputs[0], n * k, adds);
  gemm(n, k, m, {dy.data(), n, true}, {x.data(), k},
       {dweight.data(), k, adds == WideOutput::Reads::yes ? 1.0f : 0.0f});
  dweight.store();
}

}  // namespace

void enter_matmul(KernelTable& table) {
  entry(table, Kernel::matmul) = matmul;
  entry(table, Kernel::sum_rows) = sum_rows;
  entry(table, Kernel::matmul_input_backward) = input_backward<WideOutput::Reads::no>;
  entry(table, Kernel::matmul_input_backward_add) = input_backward<WideOutput::Reads::yes>;
  entry(table, Kernel::matmul_weight_backward) = weight_backward<WideOutput::Reads::no>;
  entry(table, Kernel::matmul_weight_backward_add) = weight_backward<WideOutput::Reads::yes>;
}

}  // namespace xt
