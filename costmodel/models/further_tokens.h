#pragma once

// Multi-token prediction: the layer that predicts a further token.

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/architecture.h"
#include "costmodel/models/decoder.h"

namespace xt {

/// A decoder layer like the last of `model`, on the norm of its input beside that of the embedding
/// of the token behind, brought to one width by a product, and a norm behind it: what it gives is
/// the input of lm_head, and of the next such layer.
///
/// Source:  DeepSeek-V3 technical report, arXiv 2412.19437, section 2.2; Megatron-LM,
///          core/transformer/multi_token_prediction.py
Block further_token_block(OpGraph& graph, const Architecture& model, const GraphOptions& options);

}  // namespace xt
