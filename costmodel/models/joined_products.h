#pragma once

// What a framework makes of products that read one value: one product of several linear layers, and
// sums of the gradients that several products have for it.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Has one product make queries, keys and values of `block`, and one each their gradients: where
/// `joins_gradients`, those of its outputs, which autograd has made apart, are first copied
/// together.
///
/// Shapes:  x [T,k]; weights [n_q,k], [n_k,k], [n_v,k]; y [T,n_q + n_k + n_v]
/// Assumes: weights stay parameters of their own; products whose input is not the same value, as
///          with scales of each layer's own, stay apart
/// Source:  Megatron-LM, core/transformer/attention.py, linear_qkv and get_query_key_value_tensors,
///          and Transformer Engine, pytorch/utils.py, SplitAlongDim, for the copy; llm-foundry,
///          models/layers/attention.py, Wqkv; InternEvo 0.2, model/modules/multi_head_attention.py,
///          whose attention takes and gives them packed
void join_projections(const OpGraph& graph, Block& block, bool joins_gradients);

/// Has products of `block` add to no gradient of an input: each writes a tensor of its own, which
/// another kernel adds.
///
/// Source:  PyTorch, torch/csrc/autograd/input_buffer.cpp, accumulate
void sum_branches(const OpGraph& graph, Block& block);

}  // namespace xt
