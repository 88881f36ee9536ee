#pragma once

// The memory of a step that was executed, against its schedule's.

#include <string>

#include "costmodel/ir/memory.h"
#include "costmodel/ir/timeline.h"
#include "executor/runtime/step_state.h"

namespace xt {

/// Requires the peaks of `timeline` in both spaces to be those of the schedule, each micro-step
/// under the symbols that it was run under, to the byte.
void require_memory(const StepState& state, const Timeline& timeline, const std::string& name);

}  // namespace xt
