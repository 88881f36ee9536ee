#pragma once

// What a step was: the numbers that all ranks agree on, and those of this rank alone.

#include <array>
#include <cstdint>
#include <optional>

#include "costmodel/ir/account.h"
#include "costmodel/ir/memory.h"
#include "costmodel/units/quantity.h"

namespace xt {

/// What a step was on one rank.
struct RankStep {
  Seconds time;
  Seconds data_time;        ///< before it, until its packs were there
  std::int64_t epoch = 1;   ///< of its last pack; counts from 1
  std::int64_t tokens = 0;  ///< of samples that this rank read; of a pack that is shared, its part
  std::int64_t slots = 0;   ///< the same with padding
  double attention_ratio = 1;  ///< Σ length² over samples by Σ length² over packs
  Bytes device_memory;         ///< at the peak; so is the next
  Bytes host_memory;
  Bytes reserved_memory;  ///< what its allocator has taken
};

/// The numbers of one step; those of memory and time are the largest of all ranks.
struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::optional<double> balance_loss;  ///< of routers, times its coefficient, where there is one
  bool is_skipped = false;             ///< nothing was updated, as the norm was no finite number
  Seconds time;
  double tokens_per_device_s = 0;
  double mfu = 0;
  Bytes peak_memory;
  Bytes host_memory;
  Bytes reserved_memory;   ///< of all ranks: what their allocators have taken
  Bytes allocated_memory;  ///< of all ranks in all spaces when the step has ended
  Bytes resident_memory;   ///< of all ranks: what the system has given their processes
  Bytes beside_memory;     ///< of this rank's device, beside its allocator; 0 of a CPU
  std::array<TrafficTime, n_traffic> traffic{};
  CategoryBytes peak_by_category{};  ///< of this rank
  RankStep own;
};

}  // namespace xt
