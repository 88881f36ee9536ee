// Activations of a ffn: gated ones in one pass over fused or separate halves, or op by op; GELU.

#include <cmath>
#include <numbers>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

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

// g · s(g), s the sigmoid; two passes more than the gated product needs, as eager frameworks do.
template <typename T>
XT_PER_INSTRUCTION_SET void silu_range(const T* gate, std::int64_t begin, std::int64_t end, T* y) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = wide(gate[i]);
    put(y[i], g * sigmoid(g));
  }
}

template <typename T>
XT_PER_INSTRUCTION_SET void silu_backward_range(const T* dy, const T* gate, std::int64_t begin,
                                                std::int64_t end, T* dgate) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = wide(gate[i]), s = sigmoid(g);
    put(dgate[i], wide(dy[i]) * (s * (1.0f + g * (1.0f - s))));
  }
}

template <typename T>
XT_PER_INSTRUCTION_SET void multiply_range(const T* x, const T* y, std::int64_t begin,
                                           std::int64_t end, T* z) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) put(z[i], wide(x[i]) * wide(y[i]));
}

template <typename T>
XT_PER_INSTRUCTION_SET void silu_multiply_range(const T* gate, const T* up, std::int64_t begin,
                                                std::int64_t end, T* act) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = wide(gate[i]);
    put(act[i], g * sigmoid(g) * wide(up[i]));
  }
}

template <typename T>
XT_PER_INSTRUCTION_SET void silu_multiply_backward_range(const T* dact, const T* gate, const T* up,
                                                         std::int64_t begin, std::int64_t end,
                                                         T* dgate, T* dup) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = wide(gate[i]), s = sigmoid(g), dy = wide(dact[i]);
    put(dgate[i], dy * wide(up[i]) * (s * (1.0f + g * (1.0f - s))));
    put(dup[i], dy * (g * s));
  }
}

void silu(const KernelCall& call) {
  for_elements(call, call.extent(0), [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    silu_range(in(0), begin, end, out(0));
  });
}

void silu_backward(const KernelCall& call) {
  for_elements(call, call.extent(0), [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    silu_backward_range(in(0), in(1), begin, end, out(0));
  });
}

void multiply(const KernelCall& call) {
  for_elements(call, call.extent(0), [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    multiply_range(in(0), in(1), begin, end, out(0));
  });
}

void silu_multiply(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  for_elements(call, n, [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    silu_multiply_range(in(0), in(1), begin, end, out(0));
  });
}

void silu_multiply_backward(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  for_elements(call, n, [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    silu_multiply_backward_range(in(0), in(1), in(2), begin, end, out(0), out(1));
  });
}

// x · Φ(x), Φ the normal distribution; its derivative is Φ(x) + x·φ(x).
//
// Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", arXiv 1606.08415
float normal_below(float x) { return 0.5f * std::erfc(-x * std::numbers::sqrt2_v<float> / 2); }

void gelu(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  for_elements(call, n, [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    const auto* x = in(0);
    auto* act = out(0);
    for (std::int64_t i = begin; i < end; ++i) put(act[i], wide(x[i]) * normal_below(wide(x[i])));
  });
}

void gelu_backward(const KernelCall& call) {
  constexpr float density_at_zero =
      std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  const std::int64_t n = call.extent(0) * call.extent(1);
  for_elements(call, n, [](auto in, auto out, std::int64_t begin, std::int64_t end) {
    const auto *dact = in(0), *x = in(1);
    auto* dx = out(0);
    for (std::int64_t i = begin; i < end; ++i) {
      const float at = wide(x[i]);
      const float density = density_at_zero * std::exp(-0.5f * at * at);
      put(dx[i], wide(dact[i]) * (normal_below(at) + at * density));
    }
  });
}

}  // namespace

void enter_activations(KernelTable& table) {
  entry(table, Kernel::swiglu) = swiglu;
  entry(table, Kernel::swiglu_backward) = swiglu_backward;
  entry(table, Kernel::silu) = silu;
  entry(table, Kernel::silu_backward) = silu_backward;
  entry(table, Kernel::multiply) = multiply;
  entry(table, Kernel::silu_multiply) = silu_multiply;
  entry(table, Kernel::silu_multiply_backward) = silu_multiply_backward;
  entry(table, Kernel::gelu) = gelu;
  entry(table, Kernel::gelu_backward) = gelu_backward;
}

}  // namespace xt
