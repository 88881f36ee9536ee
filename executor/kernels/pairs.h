#pragma once

// bf16 matrices as pairs of neighbours along the dimension that a product sums over, which is what
// the CPU's instructions multiply: one pair, two products, one sum. Private to kernels/.

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace xt {

/// Two bf16 numbers that an instruction multiplies with two others and adds up; the first is low.
using Pair = std::uint32_t;

/// to[c, r] = from[r, c].
///
/// Shapes:  from [rows, columns], to [columns, rows], each with so many pairs from row to row
void transpose(const Pair* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               Pair* to, std::int64_t to_stride);

/// Neighbours within each row, zero behind an odd number.
///
/// Shapes:  from [rows, n], to [rows, (n + 1) / 2]
void pair_columns(const c10::BFloat16* from, std::int64_t from_stride, std::int64_t rows,
                  std::int64_t n, Pair* to, std::int64_t to_stride);

/// Neighbours from row to row, zero below an odd number.
///
/// Shapes:  from [n, columns], to [(n + 1) / 2, columns]
void pair_rows(const c10::BFloat16* from, std::int64_t from_stride, std::int64_t n,
               std::int64_t columns, Pair* to, std::int64_t to_stride);

}  // namespace xt
