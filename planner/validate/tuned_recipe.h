#pragma once

// What recipes choose that NVIDIA tuned for speed, where a published row does not say it.

#include <string>
#include <utility>
#include <vector>

#include "planner/validate/published_row.h"

namespace xt {

/// Flags of how a Megatron row runs fp8, reduces gradients and exchanges between tensor parallel
/// ranks: as the row says, else as the recipes of its framework do.
///
/// Source:  NeMo, lightning/pytorch/plugins and collections/llm/recipes:
/// precision/mixed_precision.py
///          and pretrain_performance_optimizations, with grad_reduce_in_fp32 off and
///          tp_comm_overlap; Megatron-Bridge, training/mixed_precision.py and scripts/performance
std::vector<std::pair<std::string, std::string>> tuned_recipe(const PublishedRow& row);

/// Whether a row's tokens go to other nodes once per rank, since the recipe says so and the row
/// does not say otherwise.
///
/// Source:  Megatron-Bridge, scripts/performance/configs/qwen, H100: HybridEP where experts are
/// spread
///          over two nodes
bool sends_copies_by_recipe(const PublishedRow& row);

}  // namespace xt
