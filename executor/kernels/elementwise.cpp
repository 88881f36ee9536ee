// Kernels that read each element about once: embedding, residual, zeroing, conversion.

#include <cstring>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

void embedding(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), V = call.extent(2);
  const auto* tokens = elements<std::int64_t>(call.inputs[0], T);
  with_element_of(call.inputs[1], [&](auto element) {
    using Element = decltype(element);
    const auto* weight = elements<Element>(call.inputs[1], V * E);
    auto* y = writable<Element>(call.outputs[0], T * E);
    const auto row_bytes = static_cast<std::size_t>(E) * sizeof(Element);
    for_rows(T, E, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        XT_CHECK(tokens[t] >= 0 && tokens[t] < V, tokens[t], V);
        std::memcpy(y + t * E, weight + tokens[t] * E, row_bytes);
      }
    });
  });
}

template <typename X, typename Y>
XT_PER_INSTRUCTION_SET void accumulate(const X* x, std::int64_t begin, std::int64_t end, Y* y) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) put(y[i], wide(y[i]) + wide(x[i]));
}

// Threads split columns, so that the rows of one token are added in one order.
void embedding_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), V = call.extent(2);
  const auto* tokens = elements<std::int64_t>(call.inputs[1], T);
  with_element_of(call.outputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* dy = elements<Element>(call.inputs[0], T * E);
    auto* dweight = writable<Element>(call.outputs[0], V * E);
    for_rows(E, T, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = 0; t < T; ++t) {
        XT_CHECK(tokens[t] >= 0 && tokens[t] < V, tokens[t], V);
        accumulate(dy + t * E, begin, end, dweight + tokens[t] * E);
      }
    });
  });
}

void add(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  with_element_of(call.inputs[0], [&](auto of_x) {
    const auto* x = elements<decltype(of_x)>(call.inputs[0], n);
    with_element_of(call.outputs[0], [&](auto of_y) {
      auto* y = writable<decltype(of_y)>(call.outputs[0], n);
      for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) { accumulate(x, begin, end, y); });
    });
  });
}

void fill_zero(const KernelCall& call) {
  const at::Tensor& x = call.outputs[0];
  XT_CHECK(x.numel() == call.extent(0) && x.is_contiguous(), x.numel(), call.extent(0));
  std::memset(x.mutable_data_ptr(), 0, x.nbytes());
}

void cast(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  XT_CHECK(call.inputs[0].numel() == n && call.outputs[0].numel() == n, n);
  call.outputs[0].view(-1).copy_(call.inputs[0].view(-1));
}

void sum(const KernelCall& call) {
  for_elements(call, call.extent(0), [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    const auto *x = in(0), *y = in(1);
    auto* z = out(0);
    for (std::int64_t i = begin; i < end; ++i) put(z[i], wide(x[i]) + wide(y[i]));
  });
}

}  // namespace

void enter_elementwise(KernelTable& table) {
  entry(table, Kernel::embedding) = embedding;
  entry(table, Kernel::embedding_backward) = embedding_backward;
  entry(table, Kernel::add) = add;
  entry(table, Kernel::sum) = sum;
  entry(table, Kernel::fill_zero) = fill_zero;
  entry(table, Kernel::cast) = cast;
}

}  // namespace xt
