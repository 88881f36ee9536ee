#pragma once

// One pass through one section of a schedule. Private to sim/.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/ir/schedule.h"
#include "costmodel/ir/timeline.h"
#include "costmodel/sim/op_cost.h"
#include "costmodel/units/step_clock.h"

namespace xt {

/// The queues of a section as positions within it; the same for every pass.
struct SectionLanes {
  static constexpr std::uint32_t none = 0xffffffff;

  std::array<std::uint32_t, n_lanes> first{};  ///< op of each lane
  std::vector<std::uint32_t> next;             ///< by op: the one behind it on its lane

  SectionLanes(const Schedule& schedule, const Section& section);
};

/// What one pass runs, and under which costs.
struct SectionPass {
  const Schedule& schedule;
  const Section& section;
  const SectionLanes& lanes;
  OpCosts costs;
  bool computes_inline = false;
};

/// Runs all ops of the section and returns how long that took. Writes one event per op, in issue
/// order, as repetition `repeat` begun at `start`.
Duration run_section(const SectionPass& pass, std::span<Event> events, std::int32_t repeat,
                     Instant start);

}  // namespace xt
