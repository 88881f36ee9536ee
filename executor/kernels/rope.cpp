// Rotary position embedding, in place. Column i and column i + D/2 are one plane.
//
// Source: Su et al. 2021, "RoFormer", eq. 34; halves as in Hugging Face transformers, rotate_half

#include <cmath>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

constexpr float pi = 3.14159265358979323846f;

// Source: Hugging Face transformers, modeling_rope_utils.py, _compute_llama3_parameters
float scaled_as_llama3(float frequency, const RopeScaling& by) {
  const auto factor = static_cast<float>(by.factor), low = static_cast<float>(by.low_freq_factor),
             high = static_cast<float>(by.high_freq_factor),
             length = static_cast<float>(by.original_length);
  const float wave = 2 * pi / frequency;
  if (wave < length / high) return frequency;
  if (wave > length / low) return frequency / factor;
  const float share = (length / wave - low) / (high - low);
  return (1 - share) * frequency / factor + share * frequency;
}

float scaled(float frequency, const RopeScaling& by) {
  switch (by.kind) {
    case RopeScalingKind::none:
      return frequency;
    case RopeScalingKind::linear:
      return frequency / static_cast<float>(by.factor);
    case RopeScalingKind::llama3:
      return scaled_as_llama3(frequency, by);
    case RopeScalingKind::other:
      break;
  }
  XT_CHECK(false, static_cast<int>(by.kind));
}

// Angles are fp32 products, as in the models' published code, so that far positions agree with it.
void rope_table(const KernelCall& call) {
  const std::int64_t T = call.extent(0), D = call.extent(1), half = D / 2;
  const auto* positions = elements<std::int64_t>(call.inputs[0], T);
  auto* table = writable<float>(call.outputs[0], T * D);
  const auto theta = static_cast<float>(call.constants.rope_theta);
  for_rows(half, 32 * T, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(D);
      const float frequency = scaled(1.0f / std::pow(theta, exponent), call.constants.rope_scaling);
      for (std::int64_t t = 0; t < T; ++t) {
        const float angle = static_cast<float>(positions[t]) * frequency;
        table[t * D + i] = std::cos(angle);
        table[t * D + half + i] = std::sin(angle);
      }
    }
  });
}

template <typename T>
XT_PER_INSTRUCTION_SET void rotate(const float* table, std::int64_t heads, std::int64_t D,
                                   float direction, std::int64_t begin, std::int64_t end, T* x) {
  const std::int64_t half = D / 2;
  for (std::int64_t t = begin; t < end; ++t) {
    const float* cosine = table + t * D;
    const float* sine = cosine + half;
    for (std::int64_t head = 0; head < heads; ++head) {
      T* first = x + (t * heads + head) * D;
      T* second = first + half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = wide(first[i]), b = wide(second[i]), s = direction * sine[i];
        put(first[i], a * cosine[i] - b * s);
        put(second[i], b * cosine[i] + a * s);
      }
    }
  }
}

void rotate_all(const KernelCall& call, float direction) {
  const std::int64_t T = call.extent(0), H = call.extent(1), D = call.extent(2);
  const auto* table = elements<float>(call.inputs[0], T * D);
  with_element_of(call.outputs[0], [&](auto element) {
    auto* x = writable<decltype(element)>(call.outputs[0], T * H * D);
    for_rows(T, H * D, [&](std::int64_t begin, std::int64_t end) {
      rotate(table, H, D, direction, begin, end, x);
    });
  });
}

void rope(const KernelCall& call) { rotate_all(call, 1); }

void rope_backward(const KernelCall& call) { rotate_all(call, -1); }

}  // namespace

void enter_rope(KernelTable& table) {
  entry(table, Kernel::rope_table) = rope_table;
  entry(table, Kernel::rope) = rope;
  entry(table, Kernel::rope_backward) = rope_backward;
}

}  // namespace xt
