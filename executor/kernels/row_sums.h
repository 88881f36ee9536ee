#pragma once

// What products do with biases: rows that begin as one, and sums over rows. Private to kernels/.

#include <algorithm>
#include <array>
#include <cstdint>

#include "executor/kernels/vector_math.h"

namespace xt {

/// `n` elements of a row as fp32.
template <typename T>
void widen_row(const T* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = wide(from[i]);
}

/// Sums of columns [begin, end) of `rows` rows of `n`, in fp32 and one row after the other.
///
/// Assumes: threads split columns, so that the order does not depend on their number
template <typename T>
XT_PER_INSTRUCTION_SET void sum_columns(const T* dy, std::int64_t rows, std::int64_t n,
                                        std::int64_t begin, std::int64_t end, T* sum) {
  constexpr std::int64_t columns = 64;
  for (std::int64_t first = begin; first < end; first += columns) {
    const std::int64_t width = std::min(columns, end - first);
    std::array<float, columns> partial{};
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* of = dy + row * n + first;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) partial[static_cast<std::size_t>(i)] += wide(of[i]);
    }
    for (std::int64_t i = 0; i < width; ++i)
      put(sum[first + i], partial[static_cast<std::size_t>(i)]);
  }
}

}  // namespace xt
