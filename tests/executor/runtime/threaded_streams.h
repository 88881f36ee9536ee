#pragma once

// Streams of a device that does not exist: a thread runs what each lane is given, memory that is
// given back is handed out again at once, and nothing orders two lanes but events. What holds here
// holds on a device whose streams keep these promises.

#include <memory>

#include "executor/runtime/stream_device.h"

namespace xt {

/// Their tensors are those of the CPU.
std::unique_ptr<Streams> threaded_streams();

}  // namespace xt
