#pragma once

// The learning rate of a step.

#include "costmodel/io/plan_file.h"

namespace xt {

/// The learning rate of step `step`, which counts from 1.
///
///   warm-up of w steps:       highest · step / w
///   after it, with p = min(1, (step − w) / (decay_steps − w)):
///     constant                highest
///     linear                  highest + (minimum − highest) · p
///     cosine                  minimum + (highest − minimum) · (1 + cos πp) / 2
///
/// Assumes: decay_steps > warmup_steps where the schedule is not constant
/// Source:  Loshchilov and Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts", for
///          the cosine
double learning_rate_at(const PlanOptimizer& optimizer, std::int64_t step);

}  // namespace xt
