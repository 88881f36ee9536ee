#pragma once

// What Transformer Engine's experts leave to kernels of PyTorch around their products.

#include <string_view>

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/decoder.h"

namespace xt {

/// Kernels of PyTorch that pass over rows.
class RowPasses {
 public:
  RowPasses(BlockWriter& write, Extent rows, std::string_view part)
      : write_(write), rows_(rows), part_(part) {}
  /// `calls` kernels that read `from`, write `to`, and move `bytes` a row.
  void operator()(Pass pass, std::int64_t bytes, std::int64_t calls, ValueId from, ValueId to);
  /// A number that the host has behind `value`, for which it waits.
  ValueId wait_for(ValueId value);
  /// Room for `width` numbers a row.
  ValueId value(std::int64_t width, DType dtype) const;

 private:
  BlockWriter& write_;
  Extent rows_;
  std::string_view part_;
};

/// The bias of each expert behind its last product where rows were weighted before it: times a
/// row's weight and in fp32, by kernels of each expert, whose results are joined and narrowed
/// again.
///
/// Source:  Megatron-LM, core/transformer/moe/experts.py, TEGroupedMLP._apply_bias, whose gradients
///          autograd makes: one kernel for each product, sum and conversion
class ExpertBias {
 public:
  ExpertBias(BlockWriter& write, Extent rows, std::int64_t width, std::int64_t experts, DType dtype)
      : pass_(write, rows, "experts.down"), width_(width), experts_(experts), dtype_(dtype) {}
  /// What is passed on of the product's `out`.
  ValueId forward(ValueId out);
  /// The gradient of the product's output; `gradient` is the biases'.
  ValueId backward(ValueId d_biased, ValueId gradient);

 private:
  RowPasses pass_;
  std::int64_t width_, experts_;
  DType dtype_;
};

/// The clamps before a gated activation, which no kernel of it has: each half of what the product
/// left is clamped and both are joined; the activation reads and keeps the joined one, the clamps
/// keep what they read. Then the activation's offset becomes a tensor of the device, by a copy that
/// the host waits for.
///
/// Source:  Megatron-LM, core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl; PyTorch,
///          csrc/autograd/FunctionsManual.cpp, clamp_backward: comparisons and a choice, and
///          ATen/native/cuda/Copy.cu: memcpy_and_sync
class ExpertClamp {
 public:
  ExpertClamp(BlockWriter& write, Extent rows, std::int64_t half, DType dtype)
      : pass_(write, rows, "experts.activation"), half_(half), dtype_(dtype) {}
  /// What the activation reads: the clamped halves, and its offset.
  struct Clamped {
    ValueId halves, offset;
  };
  Clamped forward(ValueId gate_up);
  /// The gradient of `gate_up` out of that of what forward() gave.
  ValueId backward(ValueId d_clamped, ValueId gate_up);

 private:
  RowPasses pass_;
  std::int64_t half_;
  DType dtype_;
};

}  // namespace xt
