#pragma once

// Stages of a pipeline that have as much to multiply as each other, the head included.

#include <optional>
#include <vector>

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Layers before each of `stages` stages, and behind the last.
///
/// A stage takes layers until it and those before it multiply more weights than their share of all
/// that are multiplied, the head's among them, which comes last. Nothing where a stage would then
/// have no layer.
///
/// Source:  nanotron 0.5, models/base.py, build_model, and get_block_compute_costs of its models
std::optional<std::vector<std::int64_t>> balanced_stages(const OpGraph& graph, std::int64_t stages);

}  // namespace xt
