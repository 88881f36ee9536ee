#pragma once

// A pipeline as a schedule of chunks. The layers of a model are spread over stages, each on ranks
// of its own; a stage has its layers in one chunk or in several, and a chunk is a section of the
// stage's schedule, once for each direction. Which micro-batch goes through which chunk when is an
// order per stage. Equal stages share one schedule, so that no op is there once per micro-batch.

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/ir/memory.h"
#include "costmodel/ir/schedule.h"

namespace xt {

/// The sections of a chunk in its stage's schedule, where a micro-batch goes forward and back
/// before the next one: what differs for the first micro-batch of a step and for the last one.
struct ChunkSections {
  std::uint32_t first_forward = 0;  ///< gathers what the last update left stale
  std::uint32_t forward = 0;
  std::uint32_t backward = 0;
  std::uint32_t last_backward = 0;  ///< reduces gradients
  bool offloads = false;            ///< has sections of copies around, see chunk_copies.h
  /// Where backward passes come in two halves, `backward` finds gradients of inputs, and these
  /// those of weights; the last one reduces them.
  std::uint32_t weights = 0, last_weights = 0;

  auto operator<=>(const ChunkSections&) const = default;
};

/// A forward pass of a chunk and a backward pass of the same or another one that run at once.
/// Neither the forward pass of the first micro-batch nor the backward pass of the last one does.
struct ChunkPair {
  std::int32_t forward = 0;   ///< chunk
  std::int32_t backward = 0;  ///< chunk
  std::uint32_t section = 0;  ///< of both

  auto operator<=>(const ChunkPair&) const = default;
};

/// What one rank of a stage runs: the first section opens a step, the last one updates.
struct Stage {
  Schedule schedule;  ///< of one or two micro-batches through each chunk; repeats nothing
  std::vector<ChunkSections> chunks;
  std::vector<ChunkPair> pairs;
  std::int64_t layers = 0;

  bool operator==(const Stage&) const = default;
};

/// A micro-batch in a chunk of its stage, in one direction.
struct ChunkRun {
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;
  bool is_backward = false;
  bool with_next =
      false;  ///< a forward pass, at once with the backward pass behind it in the order
  bool of_weights = false;  ///< the second half of a backward pass, for which no other stage waits

  auto operator<=>(const ChunkRun&) const = default;
};

/// One training step over stages. What a chunk makes goes to the next stage; from the last stage to
/// the first one, whose next chunk takes it; gradients the other way.
struct PipelineSchedule {
  std::int32_t micro_batches = 1;
  std::int32_t stage_ranks = 1;               ///< consecutive ranks that have one stage
  std::vector<Stage> distinct;                ///< stages that differ
  std::vector<std::uint16_t> stages;          ///< index into `distinct`, by place in the pipeline
  std::vector<std::vector<ChunkRun>> orders;  ///< what each stage runs, in order
  Work transfer;                              ///< from a rank of one stage to its like of the next

  bool operator==(const PipelineSchedule&) const = default;

  const Stage& stage(std::size_t place) const { return distinct[stages[place]]; }
};

/// The section that `run` executes, where it runs alone.
std::uint32_t section_of(const Stage& stage, const ChunkRun& run, std::int32_t micro_batches);

/// What of `order` a stage runs at once from its `i`-th run on: that, or a pair.
inline std::span<const ChunkRun> runs_at(std::span<const ChunkRun> order, std::size_t i) {
  return order.subspan(i, order[i].with_next ? 2 : 1);
}

/// The section that executes what runs_at() gives.
std::uint32_t section_of(const Stage& stage, std::span<const ChunkRun> at_once,
                         std::int32_t micro_batches);

/// How often each section runs in a step in which the stage runs `order`.
std::vector<std::int32_t> section_runs(const Stage& stage, std::span<const ChunkRun> order,
                                       std::int32_t micro_batches);

/// The peak of a stage, and how often a step has run each section when the one of the peak begins.
struct StagePeak {
  MemoryPeak memory;
  std::vector<std::int32_t> runs;
};

/// The peak of a stage that runs `order`: a prefix sum over the chunks in that order, of what each
/// leaves or takes away, and within a chunk over its ops. What is copied out of the device is gone
/// when the copy has been waited for, and what comes back is there when its copy begins.
///
/// Assumes: what a chunk sends is gone when the chunk has ended
StagePeak stage_peak(const Stage& stage, std::span<const ChunkRun> order,
                     std::int32_t micro_batches, const Bindings& bindings, Space space);

}  // namespace xt
