#pragma once

// What memory at the peak would cost to have back: who holds it, and for every change of the run
// that lowers it, bytes saved against time added. A change is priced as any run is: resolved by
// the same checks, lowered and simulated.

#include <string>
#include <utility>
#include <vector>

#include "costmodel/ir/alive.h"
#include "planner/estimate/estimate.h"

namespace xt {

/// Fields of a run file and what they become, as a user would write them.
using Change = std::vector<std::pair<std::string, std::string>>;

/// A change that lowers the peak: of what is allocated, and of what is in use with communicators.
struct Price {
  Change change;
  DeviceMemory device;  ///< of a rank, with the change
  Bytes host_peak;      ///< of a rank, with the change
  Bytes saved;          ///< of what is allocated at the peak
  Seconds added;        ///< to a step of as many tokens per device; below zero it is faster
  Fit fit = Fit::does_not_fit;

  double seconds_per_gib() const;
};

/// The peak of a plan and what can be done about it.
struct PriceList {
  std::vector<Holders> alive;      ///< at the peak, most bytes first; of a pipeline, of its fullest
                                   ///< stage, all micro-batches that it holds
  std::vector<Price> prices;       ///< least time for a byte first
  std::vector<Price> ways_to_fit;  ///< where the plan does not fit: the three that add least time
};

/// Prices every change of `request` that its engine accepts and that lowers the peak of `plan`; of
/// a plan that does not fit, no more of a change than is enough.
///
/// Changes: recompute more layers or ops, swap more layers, or the optimizer; halve the chunk of
///          the loss, or take 1024 tokens; halve the pack, or the packs in lock-step, or share a
///          pack among twice as many ranks, each with twice the micro-steps; reshard layers, shard
///          over all ranks, spread experts further inside the node, use more devices, compute in
///          fp8, compile, reduce in bf16, leave exchanges where they are; in a pipeline, twice as
///          many stages, half the chunks of a stage, whole backward passes, or half or all of what
///          chunks keep in host memory. What was left to the planner stays as it was resolved
/// Assumes: `plan` is `request` resolved and `estimate` is of it; more devices have the same packs
///          each, so that a step has more tokens where there is no accumulation to shorten
///
/// ways_to_fit has one way for each set of fields; where there are fewer than three, also pairs of
/// the changes that save most and do not suffice alone.
PriceList price_list(const Request& request, const Plan& plan, const Estimate& estimate);

/// `change` as flags of the command line.
std::string flags_text(const Change& change);

/// The members `alive_at_peak`, `prices` and `ways_to_fit` of an answer of xt.estimate/1.
void add_price_list(Json& answer, const Estimate& estimate, const PriceList& list);

/// Who is alive and what it would cost to change that, for people.
std::string price_list_text(const Estimate& estimate, const PriceList& list);

/// How the plan can be made to fit, for people; empty if there is no way among those tried.
std::string ways_to_fit_text(const PriceList& list);

}  // namespace xt
