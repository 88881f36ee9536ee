#pragma once

// From times to a profile: the inverse of costmodel/cost, so that the demand of a work that was
// measured takes exactly the time that was measured.

#include <string>

#include "costmodel/hardware/profile.h"
#include "executor/measure/measurements.h"

namespace xt {

/// The profile `name` of the machine that `found` was measured on. One device is one rank.
///
///   alone(demand(work)) = median time of the work, at every point that was measured
///
/// Assumes: every kernel that computes was measured, at one size or more
/// Source:  costmodel/cost, solved for the efficiency
Profile profile_of(const Measurements& found, std::string name);

}  // namespace xt
