#pragma once

// Matrix products of bf16 matrices on CPUs with instructions for them: operands are put into the
// order in which the instructions read them, tiles are multiplied by oneDNN's kernels inside
// LibTorch and rounded once. Memory is the caller's; knows no tensor. Private to kernels/.

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace xt {

/// A row-major bf16 matrix whose rows begin `stride` elements apart; a product may read it
/// transposed.
struct NarrowFactor {
  const c10::BFloat16* data = nullptr;
  std::int64_t stride = 0;
  bool is_transposed = false;
};

/// Where a product goes, and what is added to it before it is rounded.
struct NarrowProduct {
  c10::BFloat16* data = nullptr;
  std::int64_t stride = 0;
  const c10::BFloat16* addend =
      nullptr;  ///< [m,n] or, with a stride of 0, [n] for each row; or none
  std::int64_t addend_stride = 0;
};

/// What a product takes beside its operands: as much as each of them in fp32.
struct GemmWorkspace {
  float* a = nullptr;  ///< m·k elements
  float* b = nullptr;  ///< k·n
  float* c = nullptr;  ///< m·n
};

/// C = A · B + addend, summed in fp32 and rounded to nearest even. The same bits whatever the
/// number of threads.
///
/// Shapes:  A [m,k], B [k,n], C [m,n], each as read; k ≥ 1
/// Assumes: has_bf16_instructions()
void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const NarrowFactor& a,
               const NarrowFactor& b, const NarrowProduct& c, const GemmWorkspace& workspace);

/// Whether this CPU multiplies bf16 (AVX512_BF16). Without, oneDNN computes the same by emulation,
/// slower than fp32.
bool has_bf16_instructions();

}  // namespace xt
