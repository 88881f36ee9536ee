#pragma once

// What a step takes of a device: what its schedule allocates, what the allocator holds for it, and
// what stands beside the allocator. Out of memory is a risk: how much an allocator holds differs
// from run to run.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/schedule.h"

namespace xt {

/// Whether a step runs: in most runs, in half of them, or in fewer.
enum class Fit : std::uint8_t { fits, at_risk, does_not_fit };

inline constexpr std::array<std::string_view, 3> fit_names = {"fits", "at risk", "does not fit"};

/// Memory of one rank's device at the peak of a step.
struct DeviceMemory {
  Bytes allocated;     ///< by the schedule
  Bytes reserved_p50;  ///< held by the allocator, in the median run
  Bytes reserved_p95;  ///< the same in the run in twenty that holds most
  std::int64_t n_communicators = 0;
  Bytes communicators;  ///< their buffers
  Bytes context;        ///< of driver and framework
  Bytes memory;         ///< of the device

  /// What stands beside the allocator.
  Bytes beside() const { return communicators + context; }
  Bytes p50() const { return reserved_p50 + beside(); }
  Bytes p95() const { return reserved_p95 + beside(); }
  Fit fit() const {
    if (p50() > memory) return Fit::does_not_fit;
    return p95() > memory ? Fit::at_risk : Fit::fits;
  }
};

/// What a step of `schedule` takes of a device of `profile` when it allocates so much at its peak,
/// and so much in the pools of its streams, each at its own: see pooled_peak(). It has
/// `further_communicators` beside those of the schedule.
///
/// Where the median run has no room for all that pools hold, they hold less, down to what is
/// allocated at once and its fragments.
///
/// Assumes: a communicator's buffers exist from the first step on and are never given back; the
///          context is as large whatever runs; what an exchange takes grows with the ranks that a
///          rank is connected to, up to eight, and over nodes is one number; a library that sends a
///          token once per rank is DeepEP with its own settings
/// Source:  NCCL issue 986: buffers are of a communicator, and do not grow with ranks beyond two
///          nodes; PyTorch, c10/cuda/CUDACachingAllocator.cpp, release_cached_blocks
DeviceMemory device_memory(const Profile& profile, const Schedule& schedule, Bytes allocated,
                           Bytes pooled, std::int64_t further_communicators = 0);

}  // namespace xt
