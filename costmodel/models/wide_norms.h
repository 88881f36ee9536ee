#pragma once

// Norms in fp32 between products in 16 bits.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Has each RMSNorm of `block` read a copy of its input in fp32 and write fp32, which is narrowed;
/// gradients take the same way back, where the input is widened again.
///
/// Assumes: norms are checkpointed, as they are by default, so that no copy is kept
/// Source:  InternEvo, model/modeling_internlm.py, norm1(_residual.float()), and core/naive_amp.py,
///          whose hooks narrow what modules in fp32 put out
void widen_norms(const OpGraph& graph, Block& block);

}  // namespace xt
