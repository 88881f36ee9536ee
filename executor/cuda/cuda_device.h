#pragma once

// One GPU as a device: a stream for each lane, an event before and behind every op, memory of
// LibTorch's caching allocators.

#include <memory>

#include "executor/runtime/device.h"

namespace xt {

/// GPU `index` of this host; the calling thread uses no other from here on.
///
/// Assumes: there is such a GPU
std::unique_ptr<Device> cuda_device(int index);

}  // namespace xt
