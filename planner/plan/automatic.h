#pragma once

// What a user may leave to the planner: how long a chunk of the loss is and how many layers are
// swapped. Both ask the schedule's own memory; neither asks its time.

#include <vector>

#include "planner/plan/layers.h"
#include "planner/plan/plan.h"

namespace xt {

/// Lengths of a chunk that are worth trying: powers of two from 256 up that are shorter than the
/// tokens of a loss, and all of them if that is the next.
std::vector<std::int64_t> loss_chunks(std::int64_t tokens);

/// Sets loss_chunk, and then swap_layers, where they are left to the planner.
///
/// loss_chunk: the largest of loss_chunks() at which the loss does not set the step's peak; where
///             there is none, the one with the smallest peak
/// swap_layers: the fewest with which the step fits in the median run (device_memory); all that can
///              be if none does
/// Assumes: memory grows with the chunk and shrinks with every layer swapped
void choose_automatic(Strategy& strategy, const OpGraph& graph, const Profile& profile,
                      LeftToPlanner left);

}  // namespace xt
