#pragma once

// What happened, or will happen, when a schedule is interpreted: one event per op and repetition,
// on the step's own clock, with the values of the symbols it was interpreted under.

#include <cstdint>
#include <vector>

#include "costmodel/ir/memory.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/units/step_clock.h"

namespace xt {

/// One execution of one op.
struct Event {
  OpId op{};
  std::int32_t repeat = 0;  ///< which execution of the op's section
  Instant start;
  Instant end;

  auto operator<=>(const Event&) const = default;
};

/// One interpretation of one step on one rank.
struct Timeline {
  std::uint64_t schedule_digest = 0;
  bool is_measured = false;
  std::int32_t rank = 0;
  std::int32_t step = 0;
  std::vector<Event> events;       ///< in issue order, repetitions one after another
  std::vector<Bindings> bindings;  ///< per micro-step; one entry if they do not differ
  MemoryPeak device_memory;
  MemoryPeak host_memory;
  Instant end;  ///< when the step has ended; it starts at zero
};

/// The span of a step.
inline Duration makespan(const Timeline& timeline) { return timeline.end - Instant{}; }

}  // namespace xt
