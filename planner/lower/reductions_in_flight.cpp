// Reductions that the host has issued and not waited for. What they read cannot be used again
// before the device is through with it, though no tensor has it any more, and the host waits for
// the oldest of them only when there are too many. Ranks wait for each other and reductions for
// gathers, so that sooner or later there are as many as may be, whatever a step takes in the mean.
//
// Source: DeepSpeed, runtime/zero/stage3.py, __reduce_and_partition_ipg_grads, which waits for an
// event when more than max_param_reduce_events (2) are outstanding, and __add_grad_to_ipg_bucket,
// which records gradients on the reductions' stream; independent_gradient_partition_epilogue, which
// waits for all of them; PyTorch, c10/cuda/CUDACachingAllocator.cpp, recordStream

#include <algorithm>

#include "planner/lower/lowering.h"

namespace xt {

void Lowering::wait_for(const ReductionInFlight& of) {
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const BufferId buffer : of.read) build_.draft().held_back.push_back({buffer, last});
}

// Makes room for a reduction of `flat`: of what is in flight, what is older than so many buckets is
// waited for. A parameter that is larger than a bucket is one of its own.
void Lowering::wait_for_oldest(const UnitFlat& flat) {
  if (!has_reductions_in_flight()) return;
  const std::int64_t bucket = std::max(strategy_.reduce_bucket, flat.layout->largest_piece);
  std::int64_t elements = flat.layout->elements;
  auto oldest = in_flight_.end();
  while (oldest != in_flight_.begin()) {
    elements += std::prev(oldest)->elements;
    if (elements > rules_.reductions_in_flight * bucket) break;
    --oldest;
  }
  std::for_each(in_flight_.begin(), oldest, [&](const auto& of) { wait_for(of); });
  in_flight_.erase(in_flight_.begin(), oldest);
}

void Lowering::wait_for_all() {
  for (const ReductionInFlight& of : in_flight_) wait_for(of);
  in_flight_.clear();
}

}  // namespace xt
