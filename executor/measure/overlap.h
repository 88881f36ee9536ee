#pragma once

// What traffic takes from compute when both run: the share that makes the simulator's model true.

#include <vector>

#include "executor/measure/measurements.h"
#include "executor/measure/rounds.h"

namespace xt {

/// The share of compute that every kind of traffic holds, all ranks at once.
///
/// Compute that takes P alone and shares its time with traffic that takes D alone takes T; under
/// the model it runs at 1 − share for D and at full speed for the rest. On an asynchronous device
/// there is traffic as long as compute runs, so that D is T:
///
///   share = (T − P) / D
///
/// Source:  costmodel/sim, SectionRun::slowed, solved for what traffic holds
std::vector<HeldShare> held_shares(Session& session, const RoundPlan& plan);

}  // namespace xt
