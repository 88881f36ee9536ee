#include "executor/communicators/sum_ranks.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

/// Elements that are summed over all ranks before the next: their sums stay in the nearest cache.
constexpr std::int64_t block = 2048;

template <typename Element>
void sum_blocks(float* sum, const Element* parts, std::int64_t n, std::int64_t n_ranks) {
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t length = std::min(block, n - begin);
    float* __restrict to = sum + begin;
    const Element* __restrict from = parts + begin;
    for (std::int64_t i = 0; i < length; ++i) to[i] = static_cast<float>(from[i]);
    for (std::int64_t rank = 1; rank < n_ranks; ++rank) {
      from += n;
      for (std::int64_t i = 0; i < length; ++i) to[i] += static_cast<float>(from[i]);
    }
  }
}

}  // namespace

void sum_ranks(const at::Tensor& sum, const at::Tensor& parts) {
  XT_CHECK(sum.scalar_type() == at::kFloat);
  const std::int64_t n = sum.numel();
  if (n == 0) return;
  XT_CHECK(parts.numel() % n == 0, parts.numel(), n);
  const std::int64_t n_ranks = parts.numel() / n;
  auto* to = sum.mutable_data_ptr<float>();
  if (parts.scalar_type() == at::kFloat)
    return sum_blocks(to, parts.const_data_ptr<float>(), n, n_ranks);
  if (parts.scalar_type() == at::kBFloat16)
    return sum_blocks(to, parts.const_data_ptr<c10::BFloat16>(), n, n_ranks);
  XT_CHECK(parts.scalar_type() == at::kHalf);
  sum_blocks(to, parts.const_data_ptr<c10::Half>(), n, n_ranks);
}

}  // namespace xt
