#pragma once

// Attention that wants heads before tokens, and whose rotary angles are the ops of their formula.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Has queries, keys, values and what attention makes of them transposed, and queries and keys
/// turned by four kernels: two products with the angles, a swap of halves and a sum.
///
/// Assumes: temporaries of these do not matter at the peak
/// Source:  MindFormers, models/llama/llama_transformer.py, LLamaAttention.construct, and
///          modules/layers.py, RotaryEmbedding
void put_heads_first(const OpGraph& graph, Block& block);

}  // namespace xt
