#pragma once

// When the stages of a pipeline run their chunks, given how long each chunk takes on its own and
// how long what it makes is under way.

#include <vector>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/pipeline.h"
#include "costmodel/ir/timeline.h"

namespace xt {

/// How long everything takes that stages do without each other.
struct PipelineTimes {
  std::vector<std::vector<Duration>> sections;  ///< by distinct stage and section
  std::vector<Duration> transfers;  ///< by place: to the next stage or, as long, back from there

  bool operator==(const PipelineTimes&) const = default;
};

/// One run of a chunk, on the clock of the step.
struct ChunkEvent {
  ChunkRun run;
  Instant start;
  Instant end;
};

/// One step of a pipeline.
struct PipelineTimeline {
  std::vector<std::vector<ChunkEvent>> stages;  ///< by place, in order
  Instant end;
};

/// How long each section of `timeline` took.
///
/// Assumes: the schedule repeats nothing
std::vector<Duration> section_durations(const Schedule& schedule, const Timeline& timeline);

/// The times of transfers by place. Stages that lie on one node use its links, others the network.
///
/// Assumes: nodes are filled with consecutive ranks; all ranks of a stage send at once
std::vector<Duration> transfer_times(const PipelineSchedule& pipeline, const Profile& profile);

/// The step of `pipeline`. Stages open it together, each runs its order, and they update together,
/// since the norm of all gradients needs them all.
///
/// A transfer starts when its chunk has ended and the one before it on its link has arrived; a
/// chunk starts when its stage has ended the one before it and what it needs has arrived. Assumes:
/// transfers take nothing from chunks that run beside them, nor from transfers the other
///          way. Megatron's blocks both stages unless chunks are interleaved
PipelineTimeline simulate(const PipelineSchedule& pipeline, const PipelineTimes& times);

}  // namespace xt
