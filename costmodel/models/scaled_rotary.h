#pragma once

// Rotary angles whose cosines and sines are scaled, by a framework whose one kernel for angles
// knows of no scale.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Replaces each rotary op of `block` that turns whole heads by the kernels of its formula, in the
/// dtype of products; where nothing is scaled, nothing changes.
///
///   forward    x·cos, the second half negated, both halves exchanged, times sin, the sum, its
///   copy;
///              six of cosines and sines, one number for each of a head's columns and each token
///   backward   times cos, times sin, a half negated, both halves exchanged, the sum
///
/// Source:  Megatron-LM, core/models/common/embeddings/rope_utils.py, apply_rotary_pos_emb, which
///          leaves Transformer Engine's kernel where mscale is not 1, and
///          _apply_rotary_pos_emb_bshd
void use_unfused_scaled_rotary(const OpGraph& graph, Block& block);

}  // namespace xt
