#pragma once

// Schedules drawn from a seed: several lanes, views, ops in place, workspace, buffers of every
// lane, a size that only running decides, sections that repeat. Their kernels only mix tags, so
// that a value read too early, too late or from memory given away shows in what a step leaves
// behind.

#include <cstdint>
#include <span>

#include "costmodel/ir/schedule.h"

namespace xt {

/// The schedule of `seed`.
///
/// Shapes:  all buffers are int32 but that of the counts; extents[5] of a work is its salt,
///          extents[4] the elements of its workspace
Schedule random_schedule(std::uint64_t seed);

/// The rows that the counts of a random schedule say, whatever was assumed.
inline constexpr std::int64_t bound_rows = 37;

/// One tag out of two; no two orders of mixing give the same.
constexpr std::uint32_t mixed(std::uint32_t a, std::uint32_t b) {
  std::uint32_t h = (a ^ 0x9e3779b9u) * 0x85ebca6bu + b;
  h ^= h >> 15;
  return h * 0xc2b2ae35u + 1;
}

/// What a tag kernel does: every element of every output becomes a mix of the salt, of all inputs
/// and, if `is_in_place`, of what it was.
void mix_tags(std::uint32_t salt, std::span<const std::span<const std::uint32_t>> inputs,
              std::span<const std::span<std::uint32_t>> outputs, bool is_in_place);

/// Whether tag kernels of this kernel read their outputs.
bool is_in_place(Kernel kernel);

}  // namespace xt
