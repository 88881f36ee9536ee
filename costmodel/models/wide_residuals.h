#pragma once

// Residuals in fp32 between products in 16 bits.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Has `block` hand on fp32, add up residuals in it and hand gradients of them back in it; products
/// that read one read a copy in the graph's dtype.
///
/// Source:  PyTorch, aten/src/ATen/autocast_mode.h: embeddings and sums are on no list of autocast,
///          so that residuals are as wide as weights at rest
void widen_residuals(const OpGraph& graph, Block& block);

}  // namespace xt
