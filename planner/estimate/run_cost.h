#pragma once

// What all steps of a run take together: time, device hours, money.

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/io/json.h"
#include "planner/estimate/evidence.h"
#include "planner/plan/plan.h"

namespace xt {

/// A whole run.
struct RunCost {
  double tokens = 0;
  std::int64_t steps = 0;
  Seconds time;
  Interval interval_80;         ///< of `time`, in seconds
  double device_hours = 0;      ///< devices are packages, as they are rented
  std::optional<double> money;  ///< where a device hour has a price, in its currency
};

/// The run of `plan` if every step takes `step`, with a relative error of `deviation`; none where
/// the plan does not say how many tokens it has.
///
/// Assumes: every step trains on as many tokens, padding not counted, and nothing else takes time:
///          no restart, checkpoint, evaluation or loss of devices
std::optional<RunCost> run_cost(const Plan& plan, Seconds step, double deviation);

/// Two lines for people; empty where there is no run.
std::string run_cost_text(const Plan& plan, const std::optional<RunCost>& run);

/// Null where there is no run.
Json run_cost_json(const std::optional<RunCost>& run);

}  // namespace xt
