#pragma once

// Products of linear layers and experts in fp8: their operands are quantised before them, weights
// before they are gathered.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Turns the products of `block` outside the router into fp8 ones. Each quantises its own operands,
/// once for the rows and once for the columns of the scales, and keeps the copy that the weight's
/// gradient reads instead of the operand itself.
///
/// Assumes: scales take no memory worth counting: 4 bytes for 128 or 16384 elements
/// Source:  XTuner V1 (InternLM/xtuner, b934f4620), float8/, tilewise: activations by 1×128,
/// weights
///          by 128×128; lm_head, router, embedding and norms stay as they are
void use_fp8_products(OpGraph& graph, Block& block);

}  // namespace xt
