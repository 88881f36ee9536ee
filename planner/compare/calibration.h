#pragma once

// Calibration of a profile on measured plans, and its score on plans that were not used.

#include <string>
#include <vector>

#include "costmodel/calibrate/fit.h"
#include "costmodel/hardware/overlay.h"
#include "planner/compare/compare.h"

namespace xt {

/// What the ops of `plan` were predicted to take under the data that came, and what they took.
std::vector<Observation> observe(const MeasuredPlan& plan);

/// The step of one plan that was not fitted to.
struct Score {
  std::string name;
  Seconds measured;
  Seconds before;  ///< predicted with the profile
  Seconds after;   ///< predicted with the overlay on it

  double error_before() const { return before / measured - 1.0; }
  double error_after() const { return after / measured - 1.0; }
};

/// What a calibration found, and how well it does.
struct Calibration {
  Overlay overlay;
  std::vector<KernelScale> scales;
  std::vector<Score> scores;
};

/// Fits on `fit_on` and scores on `score_on`, each with its name.
///
/// Throws: InputError when the plans were not all priced with the same profile
Calibration calibrate(const std::vector<std::pair<std::string, MeasuredPlan>>& fit_on,
                      const std::vector<std::pair<std::string, MeasuredPlan>>& score_on);

}  // namespace xt
