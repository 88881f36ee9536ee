#pragma once

// From what is computed to what is run: an op graph and a strategy become the schedule of one step
// by the rules of the strategy's engine.

#include <cstdint>
#include <span>

#include "costmodel/ir/op_graph.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/models/decoder.h"
#include "planner/strategy.h"

namespace xt {

/// How the engine of `strategy` builds the graph that it lowers.
GraphOptions graph_options(const Strategy& strategy);

/// The schedule of one training step, where there is one stage; else see lower_pipeline().
///
/// Assumes: the strategy was checked (planner/plan): its engine exists, its counts fit the model,
///          and `graph` was built for its pack length, dtype and expert parallel size. Before data
///          is seen, samples are equally long and every rank receives as many rows as it sends
Schedule lower(const OpGraph& graph, const Strategy& strategy);
/// The same with other layers than those of `graph`, each an index into its decoder blocks.
Schedule lower(const OpGraph& graph, std::span<const std::uint16_t> layers,
               const Strategy& strategy);

}  // namespace xt
