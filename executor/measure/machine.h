#pragma once

// Which machine this is, as a profile's source names it.

#include "executor/measure/measurements.h"

namespace xt {

/// This machine, today.
MachineFacts this_machine(int n_ranks, int threads_per_rank);

}  // namespace xt
