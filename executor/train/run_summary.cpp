#include <algorithm>
#include <numeric>
#include <span>

#include "costmodel/diagnostics/check.h"
#include "executor/train/run.h"

namespace xt {
namespace {

template <typename T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2.0;
}

// One step's loss says as much of its packs as of the model. That of a step that was skipped may be
// no number, and counts where there are no others.
double final_loss(const std::vector<StepMetrics>& steps) {
  std::vector<double> losses;
  for (const StepMetrics& step : steps)
    if (!step.is_skipped) losses.push_back(step.loss);
  if (losses.empty()) return steps.back().loss;
  const auto last = std::span(losses).last(std::max<std::size_t>(1, losses.size() / 10));
  return std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
}

}  // namespace

void add_step(Json& to, const StepMetrics& metrics) {
  to.add("step", metrics.step);
  to.add("loss", metrics.loss);
  to.add("grad_norm", metrics.grad_norm);
  to.add("learning_rate", metrics.learning_rate);
  to.add("skipped", metrics.is_skipped);
  to.add("step_time_s", metrics.time.value);
  to.add("tokens_per_device_s", metrics.tokens_per_device_s);
  to.add("mfu", metrics.mfu);
  to.add("peak_memory_bytes", metrics.peak_memory.value);
  to.add("host_memory_bytes", metrics.host_memory.value);
  to.add("reserved_memory_bytes", metrics.reserved_memory.value);
  to.add("allocated_memory_bytes", metrics.allocated_memory.value);
  to.add("resident_memory_bytes", metrics.resident_memory.value);
  if (metrics.beside_memory.value > 0)
    to.add("beside_allocator_bytes", metrics.beside_memory.value);
  if (metrics.balance_loss) to.add("balance_loss", *metrics.balance_loss);
}

double mfu_of(const PlanFile& plan, Seconds time) {
  if (plan.peak_flops_per_s <= 0) return 0;
  return plan.model_flops / (plan.peak_flops_per_s * time.value);
}

RunSummary summarise(const std::vector<StepMetrics>& steps, const PlanFile& plan) {
  XT_CHECK(!steps.empty());
  const auto timed = std::span(steps).subspan(steps.size() > 1 ? 1 : 0);
  const auto settled = std::span(steps).subspan(std::min<std::size_t>(2, steps.size() - 1));
  RunSummary summary;
  summary.n_timed_steps = std::ssize(timed);
  const auto median_of = [&](const auto& value) {
    std::vector<Seconds> values;
    for (const StepMetrics& step : timed) values.push_back(value(step));
    return median(std::move(values));
  };
  summary.step_time = median_of([](const StepMetrics& step) { return step.time; });
  summary.tokens_per_device_s = plan.tokens_per_device() / summary.step_time.value;
  summary.mfu = mfu_of(plan, summary.step_time);
  for (std::size_t i = 0; i < n_traffic; ++i)
    summary.traffic[i] = {
        median_of([i](const StepMetrics& step) { return step.traffic[i].total; }),
        median_of([i](const StepMetrics& step) { return step.traffic[i].exposed; })};
  for (const StepMetrics& step : settled) {
    if (step.peak_memory < summary.peak_memory) continue;
    summary.peak_memory = step.peak_memory;
    summary.peak_by_category = step.peak_by_category;
  }
  summary.final_loss = final_loss(steps);
  for (const StepMetrics& step : steps)
    if (step.is_skipped && summary.n_skipped++ == 0) summary.first_skipped = step.step;
  return summary;
}

}  // namespace xt
