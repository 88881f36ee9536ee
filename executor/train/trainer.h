#pragma once

// One rank of a training run, step by step: packs into the batch buffers, the schedule through the
// executor, loss and gradient norm out. Knows no file and no terminal.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/io/plan_file.h"
#include "executor/checkpoints/checkpoint_file.h"
#include "executor/communicators/gloo.h"
#include "executor/data/pack.h"
#include "executor/runtime/execute.h"

namespace xt {

/// The communicators of rank `rank` for everything that `schedule` exchanges.
///
/// Throws: PeerLost if a rank does not come
Communicators make_communicators(const Schedule& schedule, Network& network, int rank);

/// How a schedule spreads packs over ranks and micro-steps.
struct BatchLayout {
  /// Assumes: `schedule` reads tokens
  explicit BatchLayout(const Schedule& schedule);

  std::int64_t micro_batches = 1;   ///< in lock-step
  std::int64_t sequence_ranks = 1;  ///< adjacent ones that share a pack by tokens
  std::int64_t rank_tokens = 0;     ///< of a pack, on one rank
  std::int64_t pack_length = 0;
};

/// Pack `index` of a run; of W groups of ranks that share a pack, group g takes g, g + W, …
using PackSource = std::function<Pack(std::int64_t index)>;

/// What one step gave.
struct StepOutcome {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0;        ///< mean over the valid tokens of all ranks
  double grad_norm = 0;   ///< before clipping
  double learning_rate = 0;
  std::optional<double> balance_loss;  ///< of routers, times its coefficient, where there is one
  bool is_skipped = false;  ///< the norm was no finite number, so that nothing was updated
  StepResult result;
  Seconds data_time;           ///< until the packs were there, before the step
  std::int64_t tokens = 0;     ///< of samples that this rank read
  std::int64_t slots = 0;      ///< with padding
  double attention_ratio = 1;  ///< Σ length² over samples by Σ length² over packs
};

/// A rank that trains.
class Trainer {
 public:
  /// Assumes: `schedule` outlives the trainer; parameters are put into state().memory before the
  ///          first step
  Trainer(const Schedule& schedule, const KernelTable& kernels, Communicators communicators,
          std::int32_t rank, PackSource packs, const PlanOptimizer& optimizer,
          std::unique_ptr<Device> device = cpu_device());

  /// How far this rank has come; the same on all ranks.
  [[nodiscard]] const RunPosition& position() const { return position_; }
  /// Goes on behind `position`, the parameters and moments of which are in state().memory.
  void resume(const RunPosition& position) { position_ = position; }

  /// Runs the next step.
  ///
  /// Throws: PeerLost; InputError if a pack has a token outside the vocabulary
  StepOutcome step();

  StepState& state() { return state_; }
  /// What this rank is at; another thread may look.
  [[nodiscard]] const StepActivity& activity() const { return *activity_; }
  /// From now on says so at `place`, which outlives the trainer.
  void report_to(StepActivity& place) { activity_ = &place; }

 private:
  void take_packs();
  [[nodiscard]] double attention_ratio() const;
  [[nodiscard]] std::int64_t sample_tokens(const Pack& pack) const;
  [[nodiscard]] std::int64_t tokens_of_samples() const;
  std::vector<PackFacts> load(std::int32_t index);
  PackFacts load_one(const Pack& pack, std::int64_t micro_batch);
  std::int64_t first_token() const;
  std::int64_t packs_of_all_ranks() const;

  const Schedule& schedule_;
  StepState state_;
  std::int32_t rank_;
  PackSource packs_;
  PlanOptimizer optimizer_;
  BatchLayout layout_;
  std::int64_t n_micro_steps_ = 0;
  RunPosition position_;
  StepActivity own_activity_;
  StepActivity* activity_ = &own_activity_;
  std::vector<Pack> of_step_;
};

}  // namespace xt
