#pragma once

// When a stage that offloads copies what its chunks keep: to host memory behind the passes that
// follow a forward pass, and back behind those that a backward pass follows.

#include <optional>
#include <span>
#include <vector>

#include "costmodel/ir/pipeline.h"

namespace xt {

/// What begins to be copied when a pass of a stage starts.
struct PassCopies {
  bool waits = false;           ///< the pass starts when all earlier copies have ended
  std::vector<ChunkRun> out;    ///< forward passes whose activations leave the device
  std::optional<ChunkRun> in;   ///< the backward pass whose activations come back
  bool in_follows_out = false;  ///< what comes back is among what leaves

  bool operator==(const PassCopies&) const = default;
};

/// The section that copies what a chunk keeps out of the device, behind `forward`.
constexpr std::uint32_t section_out(std::uint32_t forward) { return forward + 1; }

/// The section that copies it back, before `backward`.
constexpr std::uint32_t section_in(std::uint32_t backward) { return backward - 1; }

/// By pass of `order`. All passes wait for copies but a forward pass behind a backward pass, so
/// that in the steady state a copy has a pass in each direction to hide behind.
///
/// Source:  Megatron-Kwai (kwai/Megatron-Kwai, 6c1ff864), core/pipeline_parallel/schedules.py,
///          forward_backward_pipelining_with_interleaving and schedule_1f1b_offload
std::vector<PassCopies> copies_of(const Stage& stage, std::span<const ChunkRun> order);

}  // namespace xt
