#include "tests/executor/train/schedule_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/executor/ranks.h"

namespace xt {
namespace {

Bytes expected_peak(const StepState& state, const Timeline& timeline, Space space) {
  const Schedule& schedule = state.schedule;
  Bytes highest;
  std::size_t micro_step = 0;
  for (std::size_t i = 0; i < schedule.sections.size(); ++i) {
    const Section& section = schedule.sections[i];
    for (std::int32_t repeat = 0; repeat < section.repeat; ++repeat) {
      const Bindings& bindings =
          timeline.bindings[std::min(micro_step, timeline.bindings.size() - 1)];
      const std::vector<Bytes> curve = memory_curve(schedule, bindings, space);
      for (std::size_t op = at(section.begin); op < at(section.end); ++op)
        highest = std::max(highest, curve[op]);
      if (state.plan.takes_pack[i]) ++micro_step;
    }
  }
  return highest;
}

}  // namespace

void require_memory(const StepState& state, const Timeline& timeline, const std::string& name) {
  for (const Space space : {Space::device, Space::host}) {
    const Bytes expected = expected_peak(state, timeline, space);
    const MemoryPeak& found =
        space == Space::device ? timeline.device_memory : timeline.host_memory;
    require(found.peak == expected,
            fmt::format("{}: peak of step {} is {} bytes, expected {}", name, timeline.step,
                        found.peak.value, expected.value));
  }
}

}  // namespace xt
