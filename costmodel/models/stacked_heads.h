#pragma once

// Queries, keys and values that one product makes, as kernels want them that turn keys beside their
// values.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Has attention of `block` read copies of keys and values: they are put one beside the other for
/// the kernel that turns them, which is two copies. Where there are as many key heads as query
/// heads, queries lie in one tensor with the keys and values before those copies, which is there
/// as long as they are.
///
/// Assumes: `block` has rotary angles and fused attention whose queries are turned whole, else
///          nothing changes, as with latent attention
/// Source:  nanotron 0.5, models/llama.py, CausalSelfAttention.forward: one contiguous tensor of
///          queries, keys and values, whose last two are concatenated and made contiguous token by
///          token; FlashAttention, layers/rotary.py, RotaryEmbedding.forward, which turns in place
void stack_heads(const OpGraph& graph, Block& block);

}  // namespace xt
