#include "costmodel/models/around_experts.h"

namespace xt {
namespace {

constexpr std::int64_t wide = width(DType::fp32), truth = width(DType::uint8);

}  // namespace

void RowPasses::operator()(Pass pass, std::int64_t bytes, std::int64_t calls, ValueId from,
                           ValueId to) {
  write_.in(pass, Kernel::cast, part_, {rows_, bytes, calls > 1 ? calls : 0}, {from}, {to});
}

ValueId RowPasses::wait_for(ValueId value) {
  const ValueId number = write_.value({1, 1, 1});
  write_.forward(Kernel::wait, part_, {}, {value}, {number}, Lane::host);
  return number;
}

ValueId RowPasses::value(std::int64_t width, DType dtype) const {
  return write_.value({rows_, width, 1}, dtype);
}

ValueId ExpertBias::forward(ValueId out) {
  const std::int64_t narrow = width(dtype_);
  const ValueId sums = pass_.value(width_, DType::fp32);
  const ValueId joined = pass_.value(width_, DType::fp32);
  const ValueId biased = pass_.value(width_, dtype_);
  // b · p, and t plus that
  pass_(Pass::forward, width_ * (wide + (narrow + 2 * wide)), 2 * experts_, out, sums);
  pass_(Pass::forward, width_ * 2 * wide, 1, sums, joined);
  pass_(Pass::forward, width_ * (wide + narrow), 1, joined, biased);
  return biased;
}

ValueId ExpertBias::backward(ValueId d_biased, ValueId gradient) {
  const std::int64_t narrow = width(dtype_);
  const ValueId d_wide = pass_.value(width_, DType::fp32);
  const ValueId d_parts = pass_.value(width_, dtype_);
  const ValueId d_out = pass_.value(width_, dtype_);
  pass_(Pass::backward, width_ * (narrow + wide), 1, d_biased, d_wide);
  pass_(Pass::backward, width_ * (wide + narrow), experts_, d_wide, d_parts);
  // times p and summed over rows, times b and summed over a row
  pass_(Pass::backward, width_ * 2 * (2 * wide + wide), 4 * experts_, d_wide, gradient);
  pass_(Pass::backward, width_ * 2 * narrow, 1, d_parts, d_out);
  return d_out;
}

ExpertClamp::Clamped ExpertClamp::forward(ValueId gate_up) {
  const std::int64_t bytes = 2 * half_ * 2 * width(dtype_);
  const ValueId halves = pass_.value(2 * half_, dtype_);
  const ValueId clamped = pass_.value(2 * half_, dtype_);
  pass_(Pass::forward, bytes, 2, gate_up, halves);
  pass_(Pass::forward, bytes, 1, halves, clamped);
  return {clamped, pass_.wait_for(clamped)};
}

ValueId ExpertClamp::backward(ValueId d_clamped, ValueId gate_up) {
  const std::int64_t narrow = width(dtype_);
  const ValueId is_within = pass_.value(2 * half_, DType::uint8);
  const ValueId d_halves = pass_.value(2 * half_, dtype_);
  const ValueId d_gate_up = pass_.value(2 * half_, dtype_);
  // one bound of the first half, two of the second and whether both hold
  pass_(Pass::backward, half_ * (3 * (narrow + truth) + 3 * truth), 4, gate_up, is_within);
  pass_(Pass::backward, 2 * half_ * (truth + 2 * narrow), 2, d_clamped, d_halves);
  pass_(Pass::backward, 2 * half_ * 2 * narrow, 1, d_halves, d_gate_up);
  return d_gate_up;
}

}  // namespace xt
