#pragma once

// The cores of this machine as a device.

#include "executor/runtime/device.h"

namespace xt {

/// Ops of host and compute run on the issuing thread, those of every other lane on its thread.
/// Memory is the process's own allocator's.
std::unique_ptr<Device> cpu_device();

}  // namespace xt
