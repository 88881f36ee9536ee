#pragma once

// When the stages of a pipeline run their chunks, given how long each chunk takes on its own and
// how long what it makes is under way.

#include <vector>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/pipeline.h"
#include "costmodel/ir/timeline.h"

namespace xt {

/// How long a section takes on its own.
struct SectionTime {
  Duration computed{};       ///< until it hands over: all but gathers, reductions and swaps
  Duration drained{};        ///< until those have ended, too
  Duration in_background{};  ///< while gathers and reductions run

  bool operator==(const SectionTime&) const = default;
};

/// How long everything takes that stages do without each other.
struct PipelineTimes {
  std::vector<std::vector<SectionTime>> sections;  ///< by distinct stage and section
  std::vector<Duration> transfers;  ///< by place: to the next stage or, as long, back from there

  bool operator==(const PipelineTimes&) const = default;
};

/// One run of a chunk, on the clock of the step, or of a pair, of which this is the forward pass.
struct ChunkEvent {
  ChunkRun run;
  Instant start;
  Instant end;
};

/// One step of a pipeline.
struct PipelineTimeline {
  std::vector<std::vector<ChunkEvent>> stages;  ///< by place, in order
  std::vector<Duration> tails;                  ///< by place: gathers and reductions behind them
  Instant end;
};

/// The times of the sections of `timeline`. Gathers and reductions are what runs on their lanes.
///
/// Assumes: the schedule repeats nothing
std::vector<SectionTime> section_times(const Schedule& schedule, const Timeline& timeline);

/// The times of transfers by place. Stages that lie on one node use its links, others the network.
///
/// Assumes: nodes are filled with consecutive ranks; all ranks of a stage send at once
std::vector<Duration> transfer_times(const PipelineSchedule& pipeline, const Profile& profile);

/// The step of `pipeline`. Stages open it together, each runs its order, and they update together,
/// since the norm of all gradients needs them all.
///
/// A chunk starts when its stage has computed the one before it and what it needs has arrived; a
/// pair when both have what they need, and both hand over when all of it has been computed.
/// Gathers and reductions that are not done when a chunk hands over go on beside the next ones. A
/// transfer starts when its chunk has been computed and the one before it on its link has arrived.
/// Copies of what chunks keep begin with a pass, both ways at once, and a later one waits for them.
///
/// Assumes: transfers, copies, and what is left of gathers and reductions, take nothing from chunks
///          that run beside them, nor from what goes the other way. Megatron's transfers block both
///          stages unless chunks are interleaved
PipelineTimeline simulate(const PipelineSchedule& pipeline, const PipelineTimes& times);

}  // namespace xt
