#pragma once

// Time on a step's own clock, in whole nanoseconds, so that ties are exact and sums associative.

#include <chrono>
#include <cmath>
#include <cstdint>

#include "costmodel/units/quantity.h"

namespace xt {

/// The clock of one step; starts at zero when the step does. It cannot be read, only counted on.
struct StepClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<StepClock, duration>;
  static constexpr bool is_steady = true;
};

using Duration = StepClock::duration;
using Instant = StepClock::time_point;

/// `seconds` as whole nanoseconds, rounded to nearest once, on entry to a timeline.
inline Duration quantize(Seconds seconds) {
  return Duration(static_cast<std::int64_t>(std::nearbyint(seconds.value * 1e9)));
}

/// A span of a timeline as seconds.
constexpr Seconds to_seconds(Duration duration) {
  return Seconds(static_cast<double>(duration.count()) * 1e-9);
}

}  // namespace xt
