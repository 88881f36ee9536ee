// Kernels that read each element about once: embedding, residual, activation, zeroing, conversion.

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

// Source: Shazeer 2020, "GLU Variants Improve Transformer", eq. 5
template <typename T>
XT_PER_INSTRUCTION_SET void swiglu_rows(const T* gate_up, std::int64_t F, std::int64_t begin,
                                        std::int64_t end, T* act) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = gate_up + row * 2 * F;
    const T* up = gate + F;
    T* out = act + row * F;
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float g = wide(gate[i]);
      put(out[i], g * sigmoid(g) * wide(up[i]));
    }
  }
}

// d/dg (g·s(g)) = s · (1 + g·(1 − s)), s the sigmoid of g.
template <typename T>
XT_PER_INSTRUCTION_SET void swiglu_backward_rows(const T* dact, const T* gate_up, std::int64_t F,
                                                 std::int64_t begin, std::int64_t end,
                                                 T* dgate_up) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = gate_up + row * 2 * F;
    const T* up = gate + F;
    const T* d = dact + row * F;
    T* dgate = dgate_up + row * 2 * F;
    T* dup = dgate + F;
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float g = wide(gate[i]), s = sigmoid(g), dy = wide(d[i]);
      put(dgate[i], dy * wide(up[i]) * (s * (1.0f + g * (1.0f - s))));
      put(dup[i], dy * (g * s));
    }
  }
}

void swiglu(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* gate_up = elements<Element>(call.inputs[0], T * 2 * F);
    auto* act = writable<Element>(call.outputs[0], T * F);
    for_rows(T, F, [&](std::int64_t begin, std::int64_t end) {
      swiglu_rows(gate_up, F, begin, end, act);
    });
  });
}

void swiglu_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* dact = elements<Element>(call.inputs[0], T * F);
    const auto* gate_up = elements<Element>(call.inputs[1], T * 2 * F);
    auto* dgate_up = writable<Element>(call.outputs[0], T * 2 * F);
    for_rows(T, F, [&](std::int64_t begin, std::int64_t end) {
      swiglu_backward_rows(dact, gate_up, F, begin, end, dgate_up);
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

}  // namespace

void enter_elementwise(KernelTable& table) {
  entry(table, Kernel::embedding) = embedding;
  entry(table, Kernel::embedding_backward) = embedding_backward;
  entry(table, Kernel::add) = add;
  entry(table, Kernel::swiglu) = swiglu;
  entry(table, Kernel::swiglu_backward) = swiglu_backward;
  entry(table, Kernel::fill_zero) = fill_zero;
  entry(table, Kernel::cast) = cast;
}

}  // namespace xt
