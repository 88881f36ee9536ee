// Rotary position embedding, in place, of some columns of each head. Column i and column i + D/2
// are one plane, or columns 2i and 2i + 1.
//
// Source: Su et al. 2021, "RoFormer", eq. 34; halves as in Hugging Face transformers, rotate_half,
// and adjacent columns as in DeepSeek-V3's published code

#include <cmath>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/rope_frequencies.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// Angles are fp32 products, as in the models' published code, so that far positions agree with it.
void rope_table(const KernelCall& call) {
  const std::int64_t T = call.extent(0), D = call.extent(1), half = D / 2;
  const auto* positions = elements<std::int64_t>(call.inputs[0], T);
  auto* table = writable<float>(call.outputs[0], T * D);
  const std::vector<float> frequencies = rope_frequencies(D, call.constants);
  const auto factor = static_cast<float>(call.constants.rope_scaling.attention_factor);
  for_rows(half, 32 * T, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float frequency = frequencies[static_cast<std::size_t>(i)];
      for (std::int64_t t = 0; t < T; ++t) {
        const float angle = static_cast<float>(positions[t]) * frequency;
        table[t * D + i] = factor * std::cos(angle);
        table[t * D + half + i] = factor * std::sin(angle);
      }
    }
  });
}

// Where the columns lie that are turned.
struct Turned {
  std::int64_t heads, D, head, first;
};

// Of halves, the second begins D/2 columns behind the first; adjacent columns alternate.
template <bool is_adjacent, typename T>
XT_PER_INSTRUCTION_SET void rotate(const float* table, const Turned& of, float direction,
                                   std::int64_t begin, std::int64_t end, T* x) {
  const std::int64_t half = of.D / 2, stride = is_adjacent ? 2 : 1;
  for (std::int64_t t = begin; t < end; ++t) {
    const float* cosine = table + t * of.D;
    const float* sine = cosine + half;
    for (std::int64_t head = 0; head < of.heads; ++head) {
      T* first = x + (t * of.heads + head) * of.head + of.first;
      T* second = first + (is_adjacent ? 1 : half);
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = wide(first[stride * i]), b = wide(second[stride * i]);
        const float s = direction * sine[i];
        put(first[stride * i], a * cosine[i] - b * s);
        put(second[stride * i], b * cosine[i] + a * s);
      }
    }
  }
}

void rotate_all(const KernelCall& call, float direction) {
  const std::int64_t T = call.extent(0), D = call.extent(2);
  const std::int64_t head = call.extent(3) > 0 ? call.extent(3) : D;
  const Turned of{call.extent(1), D, head, call.extent(4)};
  XT_CHECK(of.first + D <= head, of.first, D, head);
  const auto* table = elements<float>(call.inputs[0], T * D);
  with_element_of(call.outputs[0], [&](auto element) {
    auto* x = writable<decltype(element)>(call.outputs[0], T * of.heads * head);
    for_rows(T, of.heads * D, [&](std::int64_t begin, std::int64_t end) {
      if (call.extent(5) > 0) {
        rotate<true>(table, of, direction, begin, end, x);
      } else {
        rotate<false>(table, of, direction, begin, end, x);
      }
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
