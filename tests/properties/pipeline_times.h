#pragma once

// How long the chunks and transfers of a pipeline take, for the laws.

#include "costmodel/sim/pipeline.h"
#include "costmodel/sim/simulate.h"

namespace xt::test {

inline PipelineTimes times_of(const PipelineSchedule& pipeline, const Profile& profile) {
  PipelineTimes times;
  for (const Stage& stage : pipeline.distinct) {
    const Bindings bindings = assumed_bindings(stage.schedule);
    const Prices prices = price(stage.schedule, bindings, profile);
    times.sections.push_back(
        section_times(stage.schedule, simulate(stage.schedule, bindings, prices)));
  }
  times.transfers = transfer_times(pipeline, profile);
  return times;
}

}  // namespace xt::test
