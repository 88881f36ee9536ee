#pragma once

// The local half of reduce-scatter: the parts that all ranks sent are added in rank order.

#include <ATen/core/Tensor.h>

namespace xt {

/// Writes into `sum` the sum over dimension 0 of `parts`, added in that order in fp32. Takes no
/// memory and uses no other thread, so that the result has the same bits on every run.
///
/// Shapes: sum [n] in fp32; parts [ranks·n] in fp32, bf16 or fp16
void sum_ranks(const at::Tensor& sum, const at::Tensor& parts);

}  // namespace xt
