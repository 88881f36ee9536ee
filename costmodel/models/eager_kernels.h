#pragma once

// Norms, rotary angles and sums of gradients as a framework without a compiler executes them: every
// operation of a formula is a kernel that reads and writes whole tensors, norms and angles in fp32
// between the conversions.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Replaces each RMSNorm and rotary op of `block` by the kernels of its formula, and each product
/// that adds to a gradient by a product and a sum.
///
///   norm      widen, square, mean, scale, narrow, times weight; ten kernels backward
///   rotary    widen, rotate, narrow, both ways
///   sums      of the gradients of what several products read
///
/// Assumes: LayerNorm and GELU are single kernels everywhere
/// Source:  PyTorch, aten/src/ATen/native/layer_norm.cpp, rms_norm as composed of other ops;
///          torchtitan, models/llama, apply_rotary_emb in complex fp32; PyTorch,
///          torch/csrc/autograd/input_buffer.cpp, InputBuffer::add
void use_eager_kernels(OpGraph& graph, Block& block);

}  // namespace xt
