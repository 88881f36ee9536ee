#include "executor/kernels/gemm.h"

#include <algorithm>
#include <limits>

#include "costmodel/diagnostics/check.h"

// The BLAS standard's interface, column-major.
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace xt {
namespace {

int narrowed(std::int64_t value) {
  XT_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), value);
  return static_cast<int>(value);
}

}  // namespace

// Row-major C = A·B is column-major C = B·A of the same memory.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
          const Product& c, float scale) {
  if (m == 0 || n == 0) return;
  const char of_a = a.is_transposed ? 'T' : 'N', of_b = b.is_transposed ? 'T' : 'N';
  const int rows = narrowed(n), columns = narrowed(m), inner = narrowed(k);
  const int lda = std::max(1, narrowed(a.stride)), ldb = std::max(1, narrowed(b.stride)),
            ldc = std::max(1, narrowed(c.stride));
  sgemm_(&of_b, &of_a, &rows, &columns, &inner, &scale, b.data, &ldb, a.data, &lda, &c.keeps,
         c.data, &ldc);
}

}  // namespace xt
