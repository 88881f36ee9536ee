// SwiGLU of gpt-oss: gate and up column by column, both bounded, and one added to up.
//
// Source: Hugging Face transformers, modeling_gpt_oss.py, GptOssExperts

#include <algorithm>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

constexpr float alpha = 1.702f;

// y = g · s(α·g) · (u + 1), s the sigmoid, g at most the limit and u within it.
template <typename T>
XT_PER_INSTRUCTION_SET void forward_range(const T* gate_up, float limit, std::int64_t begin,
                                          std::int64_t end, T* act) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = std::min(wide(gate_up[2 * i]), limit);
    const float u = std::clamp(wide(gate_up[2 * i + 1]), -limit, limit);
    put(act[i], g * sigmoid(alpha * g) * (u + 1));
  }
}

// dy/dg = (u + 1) · s · (1 + α·g·(1 − s)) and dy/du = g·s; nothing beyond the bounds.
template <typename T>
XT_PER_INSTRUCTION_SET void backward_range(const T* dact, const T* gate_up, float limit,
                                           std::int64_t begin, std::int64_t end, T* dgate_up) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gate = wide(gate_up[2 * i]), up = wide(gate_up[2 * i + 1]), dy = wide(dact[i]);
    const float g = std::min(gate, limit), u = std::clamp(up, -limit, limit);
    const float s = sigmoid(alpha * g);
    const float dg = dy * (u + 1) * (s * (1 + alpha * g * (1 - s)));
    put(dgate_up[2 * i], gate <= limit ? dg : 0.0f);
    put(dgate_up[2 * i + 1], up >= -limit && up <= limit ? dy * (g * s) : 0.0f);
  }
}

void forward(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  const auto limit = static_cast<float>(call.constants.swiglu_limit);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* gate_up = elements<Element>(call.inputs[0], 2 * n);
    auto* act = writable<Element>(call.outputs[0], n);
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
      forward_range(gate_up, limit, begin, end, act);
    });
  });
}

void backward(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  const auto limit = static_cast<float>(call.constants.swiglu_limit);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* dact = elements<Element>(call.inputs[0], n);
    const auto* gate_up = elements<Element>(call.inputs[1], 2 * n);
    auto* dgate_up = writable<Element>(call.outputs[0], 2 * n);
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
      backward_range(dact, gate_up, limit, begin, end, dgate_up);
    });
  });
}

}  // namespace

void enter_clamped_swiglu(KernelTable& table) {
  entry(table, Kernel::swiglu_clamped) = forward;
  entry(table, Kernel::swiglu_clamped_backward) = backward;
}

}  // namespace xt
