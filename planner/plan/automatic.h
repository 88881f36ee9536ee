#pragma once

// What a user may leave to the planner: how long a chunk of the loss is and how many layers are
// swapped. Both ask the schedule's own memory; neither asks its time.

#include "planner/plan/plan.h"

namespace xt {

/// Sets loss_chunk, and then swap_layers, where they are left to the planner.
///
/// loss_chunk: the largest power of two from 256 up at which the loss does not set the step's peak;
///             where there is none, the one with the smallest peak
/// swap_layers: the fewest with which the step fits in the median run (device_memory); all that can
/// be if none does Assumes: memory grows with the chunk and shrinks with every layer swapped
void choose_automatic(Plan& plan, bool chunk_is_automatic, bool swap_is_automatic);

}  // namespace xt
