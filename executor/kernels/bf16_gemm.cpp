#include "executor/kernels/bf16_gemm.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <array>

#include "costmodel/diagnostics/check.h"
#include "executor/kernels/pairs.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

using c10::BFloat16;

// Rows and columns of a tile of C, and how deep a product is at once.
constexpr std::int64_t tile = 64;
constexpr std::int64_t depth = 512;

// k with the zeros behind it: few different depths, as each is a kernel of its own, and at most 2k,
// so that packed operands fit where they would stand in fp32.
std::int64_t padded(std::int64_t k) {
  const std::int64_t step = k < 16 ? 2 : 16;
  return (k + step - 1) / step * step;
}

// As much of a matrix as is turned at once.
using Turned = std::array<Pair, static_cast<std::size_t>(tile* tile)>;

// Calls `function(first, n)` for parts of k that Turned holds the pairs of.
template <typename Function>
void for_depths(std::int64_t k, const Function& function) {
  for (std::int64_t first = 0; first < k; first += 2 * tile)
    function(first, std::min(2 * tile, k - first));
}

// Rows [begin, begin + rows) of A as pairs [rows, padded(k) / 2].
void pack_left(const NarrowFactor& a, std::int64_t begin, std::int64_t rows, std::int64_t k,
               Pair* to) {
  const std::int64_t stride = padded(k) / 2;
  if (a.is_transposed) {
    for_depths(k, [&](std::int64_t first, std::int64_t n) {
      Turned turned;
      pair_rows(a.data + first * a.stride + begin, a.stride, n, rows, turned.data(), tile);
      transpose(turned.data(), tile, (n + 1) / 2, rows, to + first / 2, stride);
    });
  } else {
    pair_columns(a.data + begin * a.stride, a.stride, rows, k, to, stride);
  }
  for (std::int64_t i = 0; i < rows; ++i)
    std::fill(to + i * stride + (k + 1) / 2, to + (i + 1) * stride, Pair{0});
}

// Columns [begin, begin + columns) of B as pairs [padded(k) / 2, columns].
void pack_right(const NarrowFactor& b, std::int64_t begin, std::int64_t columns, std::int64_t k,
                Pair* to) {
  if (b.is_transposed) {
    for_depths(k, [&](std::int64_t first, std::int64_t n) {
      Turned turned;
      pair_columns(b.data + begin * b.stride + first, b.stride, columns, n, turned.data(), tile);
      transpose(turned.data(), tile, columns, (n + 1) / 2, to + first / 2 * columns, columns);
    });
  } else {
    pair_rows(b.data + begin, b.stride, k, columns, to, columns);
  }
  std::fill(to + (k + 1) / 2 * columns, to + padded(k) / 2 * columns, Pair{0});
}

// C [rows, columns] = A · B of packed operands, with `columns` elements from row to row.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t k, const Pair* a, const Pair* b,
              float* c) {
  const std::int64_t stride = padded(k);
  const auto* left = reinterpret_cast<const BFloat16*>(a);
  const auto* right = reinterpret_cast<const BFloat16*>(b);
  for (std::int64_t first = 0; first < stride; first += depth)
    at::native::cpublas::brgemm(rows, columns, std::min(depth, stride - first), stride, columns,
                                columns, /*add_C=*/first > 0, left + first, right + first * columns,
                                c);
}

XT_PER_INSTRUCTION_SET void round_row(const float* sums, std::int64_t n, BFloat16* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) put(to[i], sums[i]);
}

XT_PER_INSTRUCTION_SET void round_sum_row(const float* sums, const BFloat16* addend, std::int64_t n,
                                          BFloat16* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) put(to[i], sums[i] + wide(addend[i]));
}

void round_tile(const float* sums, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns, const NarrowProduct& c) {
  for (std::int64_t i = 0; i < rows; ++i) {
    BFloat16* to = c.data + (row + i) * c.stride + column;
    if (c.addend == nullptr)
      round_row(sums + i * columns, columns, to);
    else
      round_sum_row(sums + i * columns, c.addend + (row + i) * c.addend_stride + column, columns,
                    to);
  }
}

// Calls `function(first, n)` for panels of a dimension.
template <typename Function>
void for_panels(std::int64_t begin, std::int64_t end, const Function& function) {
  for (std::int64_t first = begin; first < end; first += tile)
    function(first, std::min(tile, end - first));
}

// Calls `function(begin, end)` for whole panels, in several threads if the work is worth it.
template <typename Function>
void for_panels_in_threads(std::int64_t size, std::int64_t work, const Function& function) {
  constexpr std::int64_t work_per_thread = 1 << 20;
  at::parallel_for(0, (size + tile - 1) / tile,
                   std::max<std::int64_t>(1, work_per_thread / (work * tile)),
                   [&](std::int64_t begin, std::int64_t end) {
                     function(begin * tile, std::min(size, end * tile));
                   });
}

// Rows that make no whole tile are tiles of 32, 16, … 1, so that few kernels serve any number.
template <typename Function>
void for_row_tiles(std::int64_t begin, std::int64_t end, const Function& function) {
  for (std::int64_t n = tile; n > 0; n /= 2)
    for (; begin + n <= end; begin += n) function(begin, n);
}

}  // namespace

void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const NarrowFactor& a,
               const NarrowFactor& b, const NarrowProduct& c, const GemmWorkspace& workspace) {
  if (m == 0 || n == 0) return;
  XT_CHECK(k > 0, k);
  auto* const left = reinterpret_cast<Pair*>(workspace.a);
  auto* const right = reinterpret_cast<Pair*>(workspace.b);
  const std::int64_t stride = padded(k) / 2;
  for_panels_in_threads(n, k, [&](std::int64_t begin, std::int64_t end) {
    for_panels(begin, end, [&](std::int64_t column, std::int64_t columns) {
      pack_right(b, column, columns, k, right + column * stride);
    });
  });
  for_panels_in_threads(m, n * k, [&](std::int64_t begin, std::int64_t end) {
    Pair* const packed = left + begin * stride;
    float* const sums = workspace.c + begin * n;
    for_row_tiles(begin, end, [&](std::int64_t row, std::int64_t rows) {
      pack_left(a, row, rows, k, packed);
      for_panels(0, n, [&](std::int64_t column, std::int64_t columns) {
        multiply(rows, columns, k, packed, right + column * stride, sums);
        round_tile(sums, row, rows, column, columns, c);
      });
    });
    at::native::cpublas::brgemm_release();
  });
}

bool has_bf16_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace xt
