#pragma once

// What share of a step's time rests on numbers of which grade, and which numbers those are.

#include <array>
#include <span>
#include <vector>

#include "costmodel/cost/evidence.h"
#include "costmodel/ir/account.h"
#include "costmodel/ir/timeline.h"

namespace xt {

/// A number of the profile and the share of the step that it decides.
struct EvidenceShare {
  Basis number;
  double share = 0;
};

/// Shares of a step. They add up to what the step spends computing and waiting for traffic; the
/// rest is idle, waiting for the host to issue.
struct Evidence {
  std::array<double, grade_names.size()> by_grade{};
  std::vector<EvidenceShare> numbers;  ///< largest share first
};

/// A timeline, and how often what it shows of each section counts.
struct EvidencePart {
  const Schedule& schedule;
  const Timeline& timeline;
  const Bindings& bindings;
  StepAccount account;        ///< of the timeline, counted so
  std::vector<double> times;  ///< by section
};

/// What a step rests on that takes as long as all of `parts`: compute by its ops, exposed traffic
/// by the traffic that runs.
///
/// Assumes: each timeline was simulated under its bindings on `profile`
Evidence evidence(std::span<const EvidencePart> parts, const Profile& profile);

/// How far a step may be off if every number is off by what its grade suggests: the relative
/// standard deviation of the step's time.
///
///   √ Σ (shareᵢ · σᵢ)², σ = 3 % measured, 8 % vendor, 12 % derived, 25 % estimate
///
/// Assumes: numbers are off independently of each other, and a number by the same factor wherever
///          it is used; the schedule itself is right
/// Source:  judgement of this project; the vendor's figure from the 13 % between three published
///          peaks of one device, the estimate's from corrections made to estimates so far
double relative_deviation(const Evidence& evidence);

/// The ends of the interval that holds 80 % of a log-normal distribution about `value`.
struct Interval {
  double low = 0;
  double high = 0;
};
Interval interval_80(double value, double relative_deviation);

/// The number of the worst grade that decides at least a twentieth of the step, the one with the
/// largest share; null if none decides as much.
const EvidenceShare* weakest_that_matters(const Evidence& evidence);

}  // namespace xt
