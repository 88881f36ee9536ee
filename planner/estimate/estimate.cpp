#include "planner/estimate/estimate.h"

#include <cmath>

#include "planner/lower/lower.h"

namespace xt {
namespace {

// Sums a count of each op over all repetitions of its section.
template <typename Count>
Flops sum_over_step(const Schedule& schedule, const Bindings& bindings, Count count,
                    bool counts_all) {
  std::vector<Flops> by_work;
  by_work.reserve(schedule.works.size());
  for (const Work& work : schedule.works) by_work.push_back(count(work, bindings));
  Flops sum;
  for (const Section& section : schedule.sections) {
    Flops once;
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
      const bool is_model = op.origin.phase != Phase::recompute &&
                            op.origin.phase != Phase::optimizer &&
                            schedule.parts[op.origin.part] != "router";
      if (counts_all || is_model) once += by_work[at(op.work)];
    }
    sum += once * static_cast<double>(section.repeat);
  }
  return sum;
}

double fill_ratio(const Plan& plan) { return plan.data.load ? plan.data.load->fill_ratio : 1; }

// What an op sees of a pack's `value`.
std::int64_t part_of(double value, const Symbol& symbol) {
  return std::llround(value / static_cast<double>(symbol.parts));
}

// What a rank has on average.
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

// `bindings` with packs of so large a sum of squared lengths.
Bindings with_squares(const Schedule& schedule, Bindings bindings, double squares) {
  for (std::size_t i = 0; i < schedule.symbols.size(); ++i)
    if (schedule.symbols[i].kind == SymbolKind::sum_squared_lengths)
      bindings[i] = part_of(squares, schedule.symbols[i]);
  return bindings;
}

DataEffect data_effect(const Plan& plan, const Schedule& schedule) {
  const auto step = [&](double squares) {
    const Bindings bindings = with_squares(schedule, assumed_bindings(schedule), squares);
    return to_seconds(
        makespan(simulate(schedule, bindings, price(schedule, bindings, plan.profile))));
  };
  const DataLoad& load = *plan.data.load;
  return {step(load.mean), step(load.largest_grouped), step(load.largest_plain)};
}

}  // namespace

Flops model_flops(const Schedule& schedule, const Bindings& bindings, const Counted& share) {
  const auto counted = [&](const Work& work, const Bindings& with) {
    const bool is_attention = kernel_class(work.kernel) == KernelClass::attention;
    return model_flops(work, with) * (is_attention ? share.attention : share.rest);
  };
  return sum_over_step(schedule, bindings, counted, false);
}

Flops hardware_flops(const Schedule& schedule, const Bindings& bindings) {
  return sum_over_step(
      schedule, bindings,
      [](const Work& work, const Bindings& with) { return hardware_flops(work, with); }, true);
}

double tokens_per_device_s(const Plan& plan, Seconds step) {
  const auto tokens = static_cast<double>(plan.strategy.tokens_per_step());
  return fill_ratio(plan) * tokens / static_cast<double>(plan.devices) / step.value;
}

double tokens_per_device_s(const Plan& plan, const Estimate& estimate) {
  return tokens_per_device_s(plan, estimate.account.step);
}

Estimate estimate(const Plan& plan) {
  Estimate result;
  result.schedule = lower(graph_of(plan), plan.strategy);
  const Bindings bindings = assumed_bindings(result.schedule);
  result.prices = price(result.schedule, bindings, plan.profile);
  result.timeline = simulate(result.schedule, bindings, result.prices);
  result.account = account(result.schedule, result.timeline);
  const Bindings mean = mean_bindings(plan, result.schedule);
  result.model_flops = model_flops(result.schedule, mean,
                                   {plan.architecture.counted_attention_share(), fill_ratio(plan)});
  result.hardware_flops = hardware_flops(result.schedule, mean);
  if (plan.data.load) result.data = data_effect(plan, result.schedule);
  result.evidence = evidence(result.schedule, result.timeline, bindings, plan.profile);
  constexpr double median_of_normal = 0.6744897501960817;  // of its absolute value
  result.deviation = plan.calibration_error ? *plan.calibration_error / median_of_normal
                                            : relative_deviation(result.evidence);
  result.peak = plan.profile.peak(plan.strategy.compute_dtype)->value;
  result.device = device_memory(plan.profile, result.schedule, result.timeline.device_memory.peak,
                                pooled_peak(result.schedule, bindings, Space::device));
  result.host_memory = plan.profile.host_memory.value;
  return result;
}

}  // namespace xt
