#include "planner/estimate/estimate.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "planner/estimate/estimate_parts.h"
#include "planner/lower/lower.h"

namespace xt {
namespace {

// Sums a count of each op over all repetitions of its section.
template <typename Count>
Flops sum_over_step(const Schedule& schedule, std::span<const std::int32_t> runs,
                    const Bindings& bindings, Count count, bool counts_all) {
  std::vector<Flops> by_work;
  by_work.reserve(schedule.works.size());
  for (const Work& work : schedule.works) by_work.push_back(count(work, bindings));
  Flops sum;
  for (std::size_t s = 0; s < schedule.sections.size(); ++s) {
    const Section& section = schedule.sections[s];
    Flops once;
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
      const bool is_model = op.origin.phase != Phase::recompute &&
                            op.origin.phase != Phase::optimizer &&
                            schedule.parts[op.origin.part] != "router";
      if (counts_all || is_model) once += by_work[at(op.work)];
    }
    sum += once * static_cast<double>(runs[s]);
  }
  return sum;
}

std::vector<std::int32_t> repeats(const Schedule& schedule) {
  std::vector<std::int32_t> runs;
  for (const Section& section : schedule.sections) runs.push_back(section.repeat);
  return runs;
}

double fill_ratio(const Plan& plan) { return plan.data.load ? plan.data.load->fill_ratio : 1; }

// What an op sees of a pack's `value`.
std::int64_t part_of(double value, const Symbol& symbol) {
  return std::llround(value / static_cast<double>(symbol.parts));
}

Seconds step_with(const Plan& plan, const Schedule& schedule, double squares) {
  const Bindings bindings = with_squares(schedule, assumed_bindings(schedule), squares);
  return to_seconds(
      makespan(simulate(schedule, bindings, price(schedule, bindings, plan.profile))));
}

}  // namespace

Bindings mean_bindings(const Plan& plan, const Schedule& schedule) {
  Bindings bindings = assumed_bindings(schedule);
  for (std::size_t i = 0; i < schedule.symbols.size(); ++i) {
    if (schedule.symbols[i].kind == SymbolKind::rows_received)
      bindings[i] =
          std::llround(static_cast<double>(bindings[i]) / plan.strategy.routing_imbalance);
    if (schedule.symbols[i].kind == SymbolKind::sum_squared_lengths && plan.data.load)
      bindings[i] = part_of(plan.data.load->mean, schedule.symbols[i]);
  }
  return bindings;
}

Bindings with_squares(const Schedule& schedule, Bindings bindings, double squares) {
  for (std::size_t i = 0; i < schedule.symbols.size(); ++i)
    if (schedule.symbols[i].kind == SymbolKind::sum_squared_lengths)
      bindings[i] = part_of(squares, schedule.symbols[i]);
  return bindings;
}

Counted counted_share(const Plan& plan) {
  return {plan.architecture.counted_attention_share(), fill_ratio(plan)};
}

Flops model_flops(const Schedule& schedule, const Bindings& bindings, const Counted& share) {
  return model_flops(schedule, repeats(schedule), bindings, share);
}

Flops model_flops(const Schedule& schedule, std::span<const std::int32_t> runs,
                  const Bindings& bindings, const Counted& share) {
  const auto counted = [&](const Work& work, const Bindings& with) {
    const bool is_attention = kernel_class(work.kernel) == KernelClass::attention;
    return model_flops(work, with) * (is_attention ? share.attention : share.rest);
  };
  return sum_over_step(schedule, runs, bindings, counted, false);
}

Flops hardware_flops(const Schedule& schedule, const Bindings& bindings) {
  return hardware_flops(schedule, repeats(schedule), bindings);
}

Flops hardware_flops(const Schedule& schedule, std::span<const std::int32_t> runs,
                     const Bindings& bindings) {
  return sum_over_step(
      schedule, runs, bindings,
      [](const Work& work, const Bindings& with) { return hardware_flops(work, with); }, true);
}

double tokens_per_device_s(const Plan& plan, Seconds step) {
  const auto tokens = static_cast<double>(plan.strategy.tokens_per_step());
  return fill_ratio(plan) * tokens / static_cast<double>(plan.devices) / step.value;
}

double tokens_per_device_s(const Plan& plan, const Estimate& estimate) {
  return tokens_per_device_s(plan, estimate.account.step);
}

std::string peak_place(const Estimate& estimate) {
  const std::string name = op_name(estimate.schedule, estimate.timeline.device_memory.op);
  return estimate.pipeline ? fmt::format("stage {}: {}", estimate.pipeline->fullest, name) : name;
}

void rest_on(Estimate& estimate, const Plan& plan, std::span<const EvidencePart> parts) {
  estimate.evidence = evidence(parts, plan.profile);
  constexpr double median_of_normal = 0.6744897501960817;  // of its absolute value
  estimate.deviation = plan.calibration_error ? *plan.calibration_error / median_of_normal
                                              : relative_deviation(estimate.evidence);
}

Estimate estimate(const Plan& plan) {
  if (plan.strategy.pipeline_parallel > 1) return estimate_pipeline(plan);
  Estimate result;
  result.schedule = lower(graph_of(plan), plan.strategy);
  result.runs = repeats(result.schedule);
  const Bindings bindings = assumed_bindings(result.schedule);
  result.prices = price(result.schedule, bindings, plan.profile);
  result.timeline = simulate(result.schedule, bindings, result.prices);
  result.account = account(result.schedule, result.timeline);
  const Bindings mean = mean_bindings(plan, result.schedule);
  result.model_flops = model_flops(result.schedule, mean, counted_share(plan));
  result.hardware_flops = hardware_flops(result.schedule, mean);
  result.data =
      data_effect(plan, [&](double squares) { return step_with(plan, result.schedule, squares); });
  const std::vector<double> once(result.runs.size(), 1.0);
  const std::array<EvidencePart, 1> parts = {
      {{result.schedule, result.timeline, bindings, result.account, once}}};
  rest_on(result, plan, parts);
  result.peak = plan.profile.peak(plan.strategy.compute_dtype)->value;
  result.device = device_memory(plan.profile, result.schedule, result.timeline.device_memory.peak,
                                pooled_peak(result.schedule, bindings, Space::device));
  result.host_memory = plan.profile.host_memory.value;
  return result;
}

}  // namespace xt
