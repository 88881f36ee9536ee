#include "executor/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "costmodel/diagnostics/check.h"

namespace xt {

double learning_rate_at(const PlanOptimizer& optimizer, std::int64_t step) {
  const double highest = optimizer.learning_rate, lowest = optimizer.min_learning_rate;
  const std::int64_t warm = optimizer.warmup_steps;
  if (step <= warm) return highest * static_cast<double>(step) / static_cast<double>(warm);
  const auto progress = [&] {
    XT_CHECK(optimizer.decay_steps > warm, optimizer.decay_steps, warm);
    return std::min(
        1.0, static_cast<double>(step - warm) / static_cast<double>(optimizer.decay_steps - warm));
  };
  switch (optimizer.learning_rate_schedule) {
    case LearningRateSchedule::constant:
      return highest;
    case LearningRateSchedule::linear:
      return highest + (lowest - highest) * progress();
    case LearningRateSchedule::cosine:
      return lowest + (highest - lowest) * (1 + std::cos(std::numbers::pi * progress())) / 2;
  }
  XT_CHECK(false);
}

}  // namespace xt
