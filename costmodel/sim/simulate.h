#pragma once

// When the ops of a schedule run, given what each costs: lanes are in-order queues, the host issues
// one op after another, and ops that run at the same time share what they both need.

#include <span>
#include <vector>

#include "costmodel/cost/demand.h"
#include "costmodel/hardware/profile.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/ir/timeline.h"

namespace xt {

/// What the work of a schedule costs on one machine, and how that machine issues it.
struct Prices {
  std::vector<Demand> demands;   ///< by WorkId
  bool computes_inline = false;  ///< the issuing thread runs compute ops itself, as on a CPU
};

/// Prices every distinct work of `schedule` once.
Prices price(const Schedule& schedule, const Bindings& bindings, const Profile& profile);

/// The timeline of a step under contention.
///
/// Traffic on one resource slows each other in proportion to what they ask of it; compute gets what
/// the running traffic does not hold. An op that ran at full speed throughout ends at its start
/// plus its quantized duration, exactly.
///
/// Assumes: all ranks behave alike; a section starts when the one before it has ended
/// Source:  design of the project; SimGrid for resources shared by what runs on them
Timeline simulate(const Schedule& schedule, const Bindings& bindings, const Prices& prices);

/// The same without contention: every op takes the time it takes alone.
Timeline forward_pass(const Schedule& schedule, const Bindings& bindings, const Prices& prices);

/// The durations of `measured` pushed through the schedule without contention: what the step would
/// have taken, had order and overlap been as the schedule says. Against the prediction it shows the
/// error of costs, against the measurement the error of the schedule.
///
/// Assumes: `measured` holds every op of every repetition
Timeline replay(const Schedule& schedule, const Timeline& measured, const Prices& prices);

}  // namespace xt
