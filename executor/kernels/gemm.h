#pragma once

// Matrix products of fp32 matrices that lie anywhere in memory, through the BLAS inside LibTorch:
// without tensors, views or temporaries, so that products of parts of a tensor cost nothing extra.

#include <cstdint>

namespace xt {

/// A row-major matrix whose rows begin `stride` elements apart; a product may read it transposed.
struct Factor {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool is_transposed = false;
};

/// Where a product goes.
struct Product {
  float* data = nullptr;
  std::int64_t stride = 0;
  float keeps = 0;  ///< factor of what is there already
};

/// C = scale · A · B + keeps · C.
///
/// Shapes:  A [m,k], B [k,n], C [m,n], each as read
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
          const Product& c, float scale = 1);

}  // namespace xt
