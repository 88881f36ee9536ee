#include "planner/estimate/run_cost.h"

#include <fmt/format.h>

#include <cmath>

#include "costmodel/units/format.h"
#include "planner/estimate/estimate.h"

namespace xt {
namespace {

// In billions or trillions, as runs are spoken of.
std::string tokens_text(double tokens) {
  if (tokens >= 1e12) return significant(tokens / 1e12, 6) + " T";
  if (tokens >= 1e9) return significant(tokens / 1e9, 6) + " B";
  return significant(tokens, 6);
}

}  // namespace

std::optional<RunCost> run_cost(const Plan& plan, Seconds step, double deviation) {
  if (!plan.run.tokens) return std::nullopt;
  constexpr double seconds_per_hour = 3600;
  const auto devices = static_cast<double>(plan.devices);
  const double tokens_of_step = tokens_per_device_s(plan, step) * devices * step.value;
  RunCost run;
  run.tokens = *plan.run.tokens;
  run.steps = std::llround(std::ceil(run.tokens / tokens_of_step));
  run.time = static_cast<double>(run.steps) * step;
  run.interval_80 = interval_80(run.time.value, deviation);
  run.device_hours = run.time.value * devices / seconds_per_hour;
  if (plan.run.device_hour_price) run.money = run.device_hours * *plan.run.device_hour_price;
  return run;
}

std::string run_cost_text(const Plan& plan, const std::optional<RunCost>& run) {
  if (!run) return "";
  const auto in_money = [&](double seconds) {
    return significant(*run->money * seconds / run->time.value, 3);
  };
  std::string text = fmt::format(
      "{} tokens in {} steps: ~{} ({} to {}), ~{} device hours", tokens_text(run->tokens),
      run->steps, format(run->time), format(Seconds(run->interval_80.low)),
      format(Seconds(run->interval_80.high)), significant(run->device_hours, 3));
  if (run->money)
    text += fmt::format(", which at {} each cost ~{} ({} to {})",
                        significant(*plan.run.device_hour_price, 6), in_money(run->time.value),
                        in_money(run->interval_80.low), in_money(run->interval_80.high));
  return text + "\n  without restarts, checkpoints, evaluation and devices that wait\n";
}

Json run_cost_json(const std::optional<RunCost>& run) {
  if (!run) return Json();
  return Json::object(
      {{"tokens", run->tokens},
       {"steps", run->steps},
       {"time_s", run->time.value},
       {"time_interval_80_s", Json::array({run->interval_80.low, run->interval_80.high})},
       {"device_hours", run->device_hours},
       {"money", run->money ? Json(*run->money) : Json()}});
}

}  // namespace xt
