#pragma once

// Collective kernels in terms of a communicator. Private to runtime/.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/ir/kernel.h"
#include "executor/communicators/communicator.h"

namespace xt {

/// Rows per rank: the sums over equal parts of `counts`, which lie rank by rank.
///
/// Shapes:  counts, int64, [ranks, …] or flat
std::vector<std::int64_t> rows_by_rank(const at::Tensor& counts, std::int64_t ranks);

/// Runs `kernel` to its end, operands in the roles of its row; returns when its result was there.
///
/// Assumes: counts of an all_to_all are known, because a bind_rows waited for them
/// Throws:  PeerLost
std::chrono::steady_clock::time_point run_collective(Communicator& group, Kernel kernel,
                                                     std::span<const at::Tensor> inputs,
                                                     std::span<const at::Tensor> outputs);

}  // namespace xt
