#pragma once

// The answer to "how long is a step and how much memory does it take": a plan, lowered, priced and
// simulated, and everything counted from the timeline.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/io/json.h"
#include "costmodel/ir/account.h"
#include "costmodel/ir/timeline.h"
#include "costmodel/report/style.h"
#include "costmodel/sim/simulate.h"
#include "planner/estimate/evidence.h"
#include "planner/plan/device_memory.h"
#include "planner/plan/plan.h"

namespace xt {

/// What samples of different lengths do to a step: its time if all ranks had the mean load, if
/// packs are grouped by length, and if they are shuffled.
struct DataEffect {
  Seconds balanced;
  Seconds grouped;
  Seconds plain;
};

/// One stage of a pipeline, in one step.
struct StageAnswer {
  std::int64_t layers = 0;
  Bytes peak;    ///< of a rank, allocated
  Seconds busy;  ///< while a chunk, the opening or the update runs, exposed traffic included
  Seconds idle;  ///< waits for other stages and for what they send
};

/// The stages of a plan that has several.
struct PipelineAnswer {
  std::vector<StageAnswer> stages;
  std::size_t fullest = 0;                     ///< the stage with the largest peak
  std::vector<std::int32_t> runs_before_peak;  ///< there, by section, in a step
  Seconds transfer;  ///< of what one chunk makes, between the two stages farthest apart
  Seconds bubble;    ///< idle, the mean over stages
};

/// A priced and simulated plan. Of a pipeline, schedule, prices, timeline and memory are those of
/// the fullest stage, with what a step repeats there once or twice; time and flops are the mean
/// over all ranks.
struct Estimate {
  Schedule schedule;
  std::vector<std::int32_t> runs;  ///< in a step, by section
  Prices prices;
  Timeline timeline;
  StepAccount account;
  std::optional<PipelineAnswer> pipeline;  ///< where there is more than one stage
  Flops model_flops;                       ///< of one rank in a step, without recompute and router
  Flops hardware_flops;                    ///< of one rank in a step, as executed
  FlopsPerSecond peak;                     ///< of one rank in the plan's dtype
  DeviceMemory device;                     ///< of a rank, at the peak
  Bytes host_memory;                       ///< of a rank, there is
  std::optional<DataEffect> data;          ///< where lengths differ
  Evidence evidence;
  double deviation = 0;  ///< relative, of the step's time: by grades, or of the calibration

  /// Host memory is what the schedule says it is, so that it is no risk.
  Fit fit() const {
    return timeline.host_memory.peak > host_memory ? Fit::does_not_fit : device.fit();
  }
  /// In the median run.
  bool fits() const { return fit() != Fit::does_not_fit; }
  double mfu() const { return model_flops / account.step / peak; }
  double hfu() const { return hardware_flops / account.step / peak; }
};

/// The op at which the peak of memory is, and of a pipeline its stage.
std::string peak_place(const Estimate& estimate);

/// Lowers, prices and simulates `plan`.
///
/// Assumes: every rank has the rows of the fullest; where lengths differ, a micro-step takes as
/// long as the mean over
///          micro-steps of the ranks' largest Σ length², and flops are those of the mean
Estimate estimate(const Plan& plan);

/// Shares of executed flops that are no padding: of attention's, where values are padded to the
/// size of queries, and of the others', where packs are not full.
struct Counted {
  double attention = 1;
  double rest = 1;
};

/// Flops of a step of one rank that count for MFU: forward, loss and backward without recomputed
/// ops and without the router.
///
/// Source:  Megatron-LM, training/training.py, num_floating_point_operations
Flops model_flops(const Schedule& schedule, const Bindings& bindings, const Counted& share = {});
/// The same where a step runs each section `runs` times.
Flops model_flops(const Schedule& schedule, std::span<const std::int32_t> runs,
                  const Bindings& bindings, const Counted& share = {});

/// Flops of a step of one rank on the matrix units, recomputed ones included.
Flops hardware_flops(const Schedule& schedule, const Bindings& bindings);
/// The same where a step runs each section `runs` times.
Flops hardware_flops(const Schedule& schedule, std::span<const std::int32_t> runs,
                     const Bindings& bindings);

/// Tokens of samples that one device consumes per second, in steps of `step` or of `estimate`.
double tokens_per_device_s(const Plan& plan, Seconds step);
double tokens_per_device_s(const Plan& plan, const Estimate& estimate);

/// The document of `--json`, schema xt.estimate/1.
Json estimate_json(const Plan& plan, const Estimate& estimate);

/// The answer for people.
std::string estimate_text(const Plan& plan, const Estimate& estimate, const Style& style);

}  // namespace xt
