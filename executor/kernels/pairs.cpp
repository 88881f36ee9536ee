#include "executor/kernels/pairs.h"

#include <array>
#include <cstring>

#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

constexpr std::int64_t lanes = 16;

using Vector [[gnu::vector_size(lanes * sizeof(Pair))]] = Pair;

// Four rounds of interleaving row i with row i + 8 transpose 16 rows of 16.
XT_PER_INSTRUCTION_SET void transpose_block(const Pair* from, std::int64_t from_stride, Pair* to,
                                            std::int64_t to_stride) {
  std::array<Vector, lanes> rows, next;
  for (std::size_t i = 0; i < lanes; ++i)
    std::memcpy(&rows[i], from + static_cast<std::int64_t>(i) * from_stride, sizeof(Vector));
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes / 2; ++i) {
      const Vector a = rows[i], b = rows[i + lanes / 2];
      next[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
    rows = next;
  }
  for (std::size_t i = 0; i < lanes; ++i)
    std::memcpy(to + static_cast<std::int64_t>(i) * to_stride, &rows[i], sizeof(Vector));
}

[[gnu::always_inline]] inline Pair pair(c10::BFloat16 first, c10::BFloat16 second) {
  return first.x | static_cast<Pair>(second.x) << 16;
}

XT_PER_INSTRUCTION_SET void pair_row(const c10::BFloat16* from, std::int64_t n, Pair* to) {
  for (std::int64_t i = 0; i < n / 2; ++i) to[i] = pair(from[2 * i], from[2 * i + 1]);
  if (n % 2 != 0) to[n / 2] = from[n - 1].x;
}

XT_PER_INSTRUCTION_SET void pair_two_rows(const c10::BFloat16* first, const c10::BFloat16* second,
                                          std::int64_t columns, Pair* to) {
  for (std::int64_t i = 0; i < columns; ++i) to[i] = pair(first[i], second[i]);
}

}  // namespace

void transpose(const Pair* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               Pair* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += lanes) {
    for (std::int64_t c = 0; c < columns; c += lanes) {
      const Pair* block = from + r * from_stride + c;
      Pair* transposed = to + c * to_stride + r;
      if (r + lanes <= rows && c + lanes <= columns) {
        transpose_block(block, from_stride, transposed, to_stride);
        continue;
      }
      for (std::int64_t i = 0; i < std::min(lanes, rows - r); ++i)
        for (std::int64_t j = 0; j < std::min(lanes, columns - c); ++j)
          transposed[j * to_stride + i] = block[i * from_stride + j];
    }
  }
}

void pair_columns(const c10::BFloat16* from, std::int64_t from_stride, std::int64_t rows,
                  std::int64_t n, Pair* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; ++i) pair_row(from + i * from_stride, n, to + i * to_stride);
}

void pair_rows(const c10::BFloat16* from, std::int64_t from_stride, std::int64_t n,
               std::int64_t columns, Pair* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i + 1 < n; i += 2)
    pair_two_rows(from + i * from_stride, from + (i + 1) * from_stride, columns,
                  to + i / 2 * to_stride);
  if (n % 2 == 0) return;
  const c10::BFloat16* last = from + (n - 1) * from_stride;
  for (std::int64_t i = 0; i < columns; ++i) to[n / 2 * to_stride + i] = last[i].x;
}

}  // namespace xt
