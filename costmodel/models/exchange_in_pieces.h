#pragma once

// Exchanges between tensor parallel ranks that run piece by piece beside products.

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Cuts the exchanges of `ranks` tensor parallel ranks of `block` that a product needs or makes.
///
/// All-gathers before a product go around a ring: each rank multiplies its own tokens while those
/// of the rank before arrive, and hands them on. Reduce-scatters behind a product run in four
/// pieces, each while the product makes the next one. Exchanges that other products already hide
/// stay whole.
///
/// Assumes: pieces lie in buffers beside the gathered whole, where more than products read that
/// Source:  Transformer Engine, common/comm_gemm_overlap/comm_gemm_overlap.cpp, split_overlap_ag
/// and
///          split_overlap_rs; NeMo, tp_overlap_configs/userbuffers.py: ring exchange before qkv,
///          fc1 and the gradients of proj and fc2, a pipeline of four behind proj and fc2, bulk
///          elsewhere
void exchange_in_pieces(Block& block, std::int64_t ranks);

}  // namespace xt
