#pragma once

// Which machine this is, as a profile's source names it.

#include "executor/devices/device_choice.h"
#include "executor/measure/measurements.h"

namespace xt {

/// This machine, today, with ranks on `choice`.
///
/// Assumes: check_devices() found one for each rank
MachineFacts this_machine(DeviceChoice choice, int n_ranks, int threads_per_rank);

}  // namespace xt
