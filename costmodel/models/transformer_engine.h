#pragma once

// Products of linear layers and experts in fp8 as Transformer Engine runs them.

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/decoder.h"

namespace xt {

/// Turns the products of `block` outside the router into fp8 ones. An operand is quantised by one
/// pass, which also writes it transposed for the product of the weight's gradient: products in fp8
/// know one layout. A scale of the tensor as it is (tensorwise) takes a pass before. Rows of
/// experts are an operand of each expert, as many kernels but under delayed scaling, and rows that
/// were not padded when they were exchanged are copied apart, and together again, so that experts
/// have multiples of 16 each. Delayed scaling is known before the operand is, so that a norm whose
/// result only products read writes fp8 itself, and it is transposed where the backward pass needs
/// it. What ranks gather is quantised before.
///
/// Assumes: scales take no memory worth counting; weights are quantised where they are kept
/// Source:  Transformer Engine 2.x, pytorch/module/layernorm_linear.py, linear.py,
///          grouped_linear.py and fp8_padding.py, common/transpose/cast_transpose.cu
void use_transformer_engine(OpGraph& graph, Block& block, Fp8Recipe recipe);

}  // namespace xt
