// Matrix products of activations and weights. bf16 operands are multiplied as they are where the
// table says so, else widened first: CPUs without bf16 instructions multiply bf16 some fifty times
// slower than fp32.

#include "executor/kernels/bf16_gemm.h"
#include "executor/kernels/gemm.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/narrow_operands.h"
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

// C [m,n] = A [m,k] · B [k,n] of a call's inputs, which lie as they are or transposed.
struct Operands {
  std::int64_t m, n, k;
  bool transposes_a, transposes_b;
  WideOutput::Reads adds = WideOutput::Reads::no;

  std::int64_t a_stride() const { return transposes_a ? m : k; }
  std::int64_t b_stride() const { return transposes_b ? k : n; }
};

void multiply_wide(const KernelCall& call, const Operands& of) {
  const auto [m, n, k, transposes_a, transposes_b, adds] = of;
  const WideInput a(call.inputs[0], m * k), b(call.inputs[1], k * n);
  const WideOutput c(call.outputs[0], m * n, adds);
  const bool has_bias = call.inputs.size() > 2;
  if (has_bias)
    with_element_of(call.inputs[2], [&](auto element) {
      begin_with(elements<decltype(element)>(call.inputs[2], n), m, n, c.data());
    });
  const bool keeps = has_bias || adds == WideOutput::Reads::yes;
  gemm(m, n, k, {a.data(), of.a_stride(), transposes_a}, {b.data(), of.b_stride(), transposes_b},
       {c.data(), n, keeps ? 1.0f : 0.0f});
  c.store();
}

void multiply_narrow(const KernelCall& call, const Operands& of) {
  const auto [m, n, k, transposes_a, transposes_b, adds] = of;
  const NarrowWorkspace workspace(m * k, k * n, m * n);
  auto* c = writable<c10::BFloat16>(call.outputs[0], m * n);
  NarrowProduct product{c, n};
  if (adds == WideOutput::Reads::yes) product = {c, n, c, n};
  if (call.inputs.size() > 2) product.addend = elements<c10::BFloat16>(call.inputs[2], n);
  bf16_gemm(m, n, k, {elements<c10::BFloat16>(call.inputs[0], m * k), of.a_stride(), transposes_a},
            {elements<c10::BFloat16>(call.inputs[1], k * n), of.b_stride(), transposes_b}, product,
            workspace.pointers());
}

template <Bf16Products products>
void multiply(const KernelCall& call, const Operands& of) {
  if (products == Bf16Products::as_they_are && is_narrow(call))
    multiply_narrow(call, of);
  else
    multiply_wide(call, of);
}

template <Bf16Products products>
void matmul(const KernelCall& call) {
  multiply<products>(call, {call.extent(0), call.extent(1), call.extent(2), false, true});
}

template <Bf16Products products, WideOutput::Reads adds>
void input_backward(const KernelCall& call) {
  multiply<products>(call, {call.extent(0), call.extent(2), call.extent(1), false, false, adds});
}

template <Bf16Products products, WideOutput::Reads adds>
void weight_backward(const KernelCall& call) {
  multiply<products>(call, {call.extent(1), call.extent(2), call.extent(0), true, false, adds});
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

template <Bf16Products products>
void enter_products(KernelTable& table) {
  using enum WideOutput::Reads;
  entry(table, Kernel::matmul) = matmul<products>;
  entry(table, Kernel::matmul_input_backward) = input_backward<products, no>;
  entry(table, Kernel::matmul_input_backward_add) = input_backward<products, yes>;
  entry(table, Kernel::matmul_weight_backward) = weight_backward<products, no>;
  entry(table, Kernel::matmul_weight_backward_add) = weight_backward<products, yes>;
}

}  // namespace

void enter_matmul(KernelTable& table, Bf16Products products) {
  entry(table, Kernel::sum_rows) = sum_rows;
  if (products == Bf16Products::as_they_are)
    enter_products<Bf16Products::as_they_are>(table);
  else
    enter_products<Bf16Products::widened>(table);
}

}  // namespace xt
