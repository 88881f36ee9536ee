#pragma once

// A training run from the first step to the last on one rank: numbers of every step, recorded
// timelines, what is written, and at the end what was measured.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "executor/communicators/rank_environment.h"
#include "executor/observe/step_metrics.h"
#include "executor/runtime/activity_board.h"
#include "executor/train/checkpointer.h"
#include "executor/train/run_inputs.h"
#include "executor/train/trainer.h"
#include "executor/train/watcher.h"
#include "executor/train/world.h"

namespace xt {

/// Adds the numbers of a step to `to`, by their keys in metrics.jsonl.
void add_step(Json& to, const StepMetrics& metrics);

/// What a run measured, to be held against a prediction.
struct RunSummary {
  std::int64_t n_timed_steps = 0;
  Seconds step_time;  ///< median over steps but the first
  double tokens_per_device_s = 0;
  double mfu = 0;
  Bytes peak_memory;  ///< largest from step 3 on
  CategoryBytes peak_by_category{};
  std::array<TrafficTime, n_traffic> traffic{};  ///< medians over steps but the first, this rank
  double final_loss = 0;           ///< mean over the last tenth of the steps that updated something
  std::int64_t n_skipped = 0;      ///< steps that updated nothing
  std::int64_t first_skipped = 0;  ///< their first, if there is one
};

/// What a step that took `time` reached of the peak, by the plan's count of flops.
double mfu_of(const PlanFile& plan, Seconds time);

/// Who hears of a run as it goes on.
struct RunListener {
  OnStall on_stall;                                    ///< where the request has a timeout
  std::function<void(const StepMetrics&)> on_step;     ///< after each step
  std::function<void(const std::string&)> on_warning;  ///< a sentence
  std::function<void(const RunPosition&)>
      on_resumed;  ///< before the first step, if it is not step 1
};

/// All that a rank owns while it trains. Must outlive a failure until that is reported: what is
/// left of a broken group may never end.
struct RunSession {
  RunInputs inputs;
  std::unique_ptr<ActivityBoard> board;  ///< shared with a launcher, where there is one
  std::unique_ptr<Rendezvous> rendezvous;
  std::unique_ptr<GlooNetwork> network;
  std::unique_ptr<Network> device_network;  ///< of a device that has one of its own
  std::unique_ptr<World> world;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Watcher> watcher;  ///< where a timeout is asked for
  bool has_started = false;  ///< until then, what is wrong with the input is so on all ranks
  std::unique_ptr<Checkpointer> checkpointer;  ///< where checkpoints are asked for
};

/// Runs `request`, whose inputs `session` holds already, as the rank at `place`. Writes
/// metrics.jsonl and checkpoints as it goes, and recorded steps and weights at the end. Rank 0
/// returns the steps that it ran, other ranks none.
///
/// Throws: PeerLost; InputError; std::system_error
std::vector<StepMetrics> run_steps(const RunRequest& request, const RankEnvironment& place,
                                   RunSession& session, const RunListener& listener);

/// What `steps` come to; the first is not counted where there is another.
///
/// Assumes: there is a step
RunSummary summarise(const std::vector<StepMetrics>& steps, const PlanFile& plan);

}  // namespace xt
