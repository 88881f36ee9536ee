#pragma once

// Times of kernels, each call as the interpreter of schedules would make it, all ranks at once.

#include <cstdint>
#include <vector>

#include "executor/measure/measurements.h"
#include "executor/measure/operands.h"
#include "executor/measure/rounds.h"

namespace xt {

/// The times of all `cases`: every round visits every size once, so that what changes over time
/// changes all of them. Calls are of the bench's kernels, on operands in `ring`.
std::vector<KernelTimes> time_kernels(Session& session, std::vector<KernelCases> cases, Ring& ring,
                                      const RoundPlan& plan);

/// The times of copies within memory, by bytes read and written together; at most `largest_bytes`.
std::vector<MessageTimes> time_memory_copies(Session& session, std::int64_t largest_bytes,
                                             const RoundPlan& plan);

/// Bytes of the caches that a rank can call its own: its part of the last level.
std::int64_t cache_bytes_per_rank(std::int64_t n_ranks);

}  // namespace xt
