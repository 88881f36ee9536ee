#pragma once

// The streams, events and memory of one GPU, from LibTorch's pools.

#include <memory>

#include "executor/runtime/stream_device.h"

namespace xt {

/// Those of GPU `index` of this host; the calling thread uses no other from here on.
///
/// Assumes: there is such a GPU
std::unique_ptr<Streams> cuda_streams(int index);

}  // namespace xt
