#pragma once

// Which layers are recomputed, swapped and kept gathered, and how long a chunk of the loss is: what
// can change without changing the op graph of a micro-step.

#include "costmodel/models/architecture.h"
#include "planner/lower/engine.h"
#include "planner/plan/run_file.h"
#include "planner/strategy.h"

namespace xt {

/// What a request leaves to the planner; see choose_automatic().
struct LeftToPlanner {
  bool chunk = false;
  bool swap = false;
};

/// The most layers that an engine recomputes.
std::int64_t recomputable_layers(const Architecture& architecture, const EngineRules& rules);

/// Sets recompute_layers, swap_layers, reshards_layers and loss_chunk of `strategy` to what
/// `request` asks for, and reports to it what cannot be.
///
/// Assumes: ranks, packs and micro-batches of `strategy` are set
LeftToPlanner choose_layers(Strategy& strategy, const Architecture& architecture,
                            const EngineRules& rules, Request& request);

}  // namespace xt
