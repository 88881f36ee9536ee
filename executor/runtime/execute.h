#pragma once

// Interprets a schedule for real, on one rank. One thread walks the ops in order: it alone
// allocates, and it runs compute ops itself; other lanes run beside it. Knows kernels only by their
// table, and nothing of layers.

#include <array>
#include <atomic>
#include <functional>

#include "costmodel/ir/timeline.h"
#include "executor/runtime/step_state.h"

namespace xt {

/// What the data of one pack decides.
struct PackFacts {
  std::int64_t sum_squared_lengths = 0;
  std::int64_t longest_sample = 0;
  std::int64_t sample_tokens = 0;  ///< of this rank's tokens, those that are no padding
  std::int64_t documents = 0;      ///< 0 where nobody counted them
};

/// Fills the batch buffers for micro-step `index` of the step, counted from 0; returns the facts of
/// its packs, one per micro-batch in lock-step.
using LoadPacks = std::function<std::vector<PackFacts>(std::int32_t index)>;

/// What a rank is at, for another thread to see. Written by the issuing thread and the lanes.
struct StepActivity {
  std::atomic<std::int64_t> step = 0;
  std::atomic<std::int64_t> n_moves = 0;             ///< ops begun or ended, over all steps
  std::array<std::atomic<OpId>, n_lanes> running{};  ///< by lane; no_op where none runs

  StepActivity() {
    for (auto& op : running) op = no_op;
  }
};

/// One step and its place in a run.
struct StepRequest {
  std::int32_t rank = 0;
  StepConstants constants;
  LoadPacks load_packs;  ///< called before each repetition of a section that reads tokens
  StepActivity* activity = nullptr;  ///< told of every op, if there is one
};

/// What a step did, and when on the machine's clock it began.
struct StepResult {
  Timeline timeline;
  WallTime began;
};

/// Runs one step of the state's schedule.
///
/// Memory peaks are those of the process since the step began, by the allocator's count.
///
/// Assumes: all ranks call it with equal schedules
/// Throws:  PeerLost when a rank is gone; the state cannot be used afterwards
StepResult execute(StepState& state, const StepRequest& request);

}  // namespace xt
