#pragma once

// One step of all ranks that do the same as one timeline: what each op took where it mattered.

#include <vector>

#include "planner/compare/compare.h"

namespace xt {

/// The durations of a step of a role: an op that computes takes what it took on the rank that was
/// slowest between the two points at which ranks wait for each other; a collective what it took
/// from the arrival of the last rank. Events begin at zero: only durations mean anything.
///
/// Assumes: ranks wait for each other where an op of the compute or host lane depends on a
///          collective
/// Source:  design of the project: the duration of a role's compute between two collectives is that
///          of its slowest rank
std::vector<Timeline> role_timelines(const MeasuredPlan& plan);

}  // namespace xt
