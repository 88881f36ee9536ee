#pragma once

// What estimates of one stage and of several have in common. Private to estimate/.

#include <span>

#include "planner/estimate/estimate.h"

namespace xt {

/// What a rank has on average.
Bindings mean_bindings(const Plan& plan, const Schedule& schedule);

/// `bindings` with packs of so large a sum of squared lengths.
Bindings with_squares(const Schedule& schedule, Bindings bindings, double squares);

/// What of executed flops counts.
Counted counted_share(const Plan& plan);

/// What different lengths do, given the time of a step by the sum of squared lengths of its packs;
/// none where they are equal.
template <typename Step>
std::optional<DataEffect> data_effect(const Plan& plan, Step step) {
  if (!plan.data.load) return std::nullopt;
  const DataLoad& load = *plan.data.load;
  return DataEffect{step(load.mean), step(load.largest_grouped), step(load.largest_plain)};
}

/// Fills in what the time of `estimate` rests on.
void rest_on(Estimate& estimate, const Plan& plan, std::span<const EvidencePart> parts);

/// estimate() of a plan with several stages.
Estimate estimate_pipeline(const Plan& plan);

}  // namespace xt
