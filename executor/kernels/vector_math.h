#pragma once

// Arithmetic that vectorises: bf16 to fp32 and back, the exponential function, and the attribute of
// a function whose loops are compiled once per instruction set.

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

// The best clone is chosen when the program starts, which a sanitizer of threads would see before
// it is there itself. What is inlined into a clone gets its instructions too.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define XT_PER_INSTRUCTION_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XT_PER_INSTRUCTION_SET
#endif

namespace xt {

/// The value as fp32.
[[gnu::always_inline]] inline float wide(float value) { return value; }
[[gnu::always_inline]] inline float wide(c10::BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.x) << 16);
}

/// Stores `value`, rounded to nearest even.
[[gnu::always_inline]] inline void put(float& to, float value) { to = value; }
[[gnu::always_inline]] inline void put(c10::BFloat16& to, float value) {
  constexpr std::uint32_t not_a_number = 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
  to.x = static_cast<std::uint16_t>(is_number ? rounded : not_a_number);
}

/// e^x to about one unit in the last place; nothing below −87, where fp32 runs out of digits, and
/// e^88 above 88.
///
/// Source:  Cephes mathematical library, expf: x = n ln 2 + r and a polynomial of degree 6 in r
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float round_to_whole = 12582912.0f;  // 1.5 · 2^23
  const bool is_lost = x < -87.0f;
  x = is_lost ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float whole = (x * 1.44269504f + round_to_whole) - round_to_whole;
  const float r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t power = (static_cast<std::int32_t>(whole) + 127) << 23;
  return is_lost ? 0.0f : p * std::bit_cast<float>(power);
}

/// 1 / (1 + e^−x).
[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

/// Σ a·b.
template <typename A, typename B>
[[gnu::always_inline]] inline float dot(const A* a, const B* b, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += wide(a[i]) * wide(b[i]);
  return sum;
}

/// The largest of `n` ≥ 1 values.
template <typename T>
[[gnu::always_inline]] inline float largest(const T* values, std::int64_t n) {
  float result = wide(values[0]);
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = wide(values[i]);
    result = value > result ? value : result;
  }
  return result;
}

}  // namespace xt
