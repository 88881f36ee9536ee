#pragma once

// What the interpreter of schedules itself costs: the issuing thread's time per op beside the op.

#include "executor/measure/measurements.h"
#include "executor/measure/rounds.h"

namespace xt {

/// Host time per op by its kind, from schedules of ops that do next to nothing, all ranks at once.
///
/// Of an asynchronous device, what the whole schedule takes per op.
IssueTimes time_issue(Session& session, const RoundPlan& plan);

/// What the device's allocator holds over what is asked for, for blocks of many sizes.
///
/// Assumes: called before much else was allocated and freed
double reserved_over_allocated(Device& device);

}  // namespace xt
