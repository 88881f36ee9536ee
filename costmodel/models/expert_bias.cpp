// Biases of experts that no product adds.
//
// Source: Megatron-LM, core/transformer/moe/experts.py, TEGroupedMLP._apply_bias

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

constexpr std::int64_t wide = width(DType::fp32);

}  // namespace

ValueId ExpertBias::forward(std::string_view part, ValueId out) {
  const ValueId sums = write_.value({rows_, width_, 1}, DType::fp32);
  const ValueId joined = write_.value({rows_, width_, 1}, DType::fp32);
  const ValueId biased = write_.value({rows_, width_, 1});
  // b · p, and t plus that
  pass(Pass::forward, part, wide + (narrow_ + 2 * wide), 2 * experts_, out, sums);
  pass(Pass::forward, part, 2 * wide, 1, sums, joined);
  pass(Pass::forward, part, wide + narrow_, 1, joined, biased);
  return biased;
}

ValueId ExpertBias::backward(std::string_view part, ValueId d_biased, ValueId gradient) {
  const ValueId d_wide = write_.value({rows_, width_, 1}, DType::fp32);
  const ValueId d_parts = write_.value({rows_, width_, 1});
  const ValueId d_out = write_.value({rows_, width_, 1});
  pass(Pass::backward, part, narrow_ + wide, 1, d_biased, d_wide);
  pass(Pass::backward, part, wide + narrow_, experts_, d_wide, d_parts);
  // times p and summed over rows, times b and summed over a row
  pass(Pass::backward, part, 2 * (2 * wide + wide), 4 * experts_, d_wide, gradient);
  pass(Pass::backward, part, 2 * narrow_, 1, d_parts, d_out);
  return d_out;
}

void ExpertBias::pass(Pass pass, std::string_view part, std::int64_t bytes, std::int64_t calls,
                      ValueId from, ValueId to) {
  write_.in(pass, Kernel::cast, part, {rows_, width_ * bytes, calls > 1 ? calls : 0}, {from}, {to});
}

}  // namespace xt
