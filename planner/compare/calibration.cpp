#include "planner/compare/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/sim/simulate.h"

namespace xt {
namespace {

// Sum of durations and number of ops, per work.
struct Durations {
  std::vector<std::vector<Seconds>> of_work;

  Durations(const Schedule& schedule, const Timeline& timeline) : of_work(schedule.works.size()) {
    add(schedule, timeline);
  }
  void add(const Schedule& schedule, const Timeline& timeline) {
    for (const Event& event : timeline.events)
      of_work[at(schedule.op(event.op).work)].push_back(to_seconds(event.end - event.start));
  }
};

Seconds mean(const std::vector<Seconds>& values) {
  Seconds sum;
  for (const Seconds value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// What the work cannot take less than: its flops at the peak of the machine.
Seconds floor_of(const MeasuredPlan& plan, const Work& work, const Bindings& bindings) {
  const Flops flops = hardware_flops(work, bindings);
  const auto& peak = plan.profile.peak(work.dtype);
  return flops.value > 0 && peak ? flops / peak->value : Seconds();
}

Seconds predicted_with(const MeasuredPlan& plan, const Profile& profile) {
  const Bindings bindings = assumed_bindings(plan.schedule);
  return to_seconds(
      makespan(simulate(plan.schedule, bindings, price(plan.schedule, bindings, profile))));
}

Seconds measured_step(const MeasuredPlan& plan) {
  std::vector<Seconds> steps;
  for (const Timeline& timeline : plan.measured) steps.push_back(to_seconds(makespan(timeline)));
  return median(std::move(steps));
}

void check_profiles(const std::vector<std::pair<std::string, MeasuredPlan>>& plans,
                    const std::string& expected) {
  for (const auto& [name, plan] : plans)
    if (digest(plan.profile) != expected)
      throw InputError(fmt::format("{} was priced with another profile", name),
                       "calibrate on plans of one profile, without an overlay");
}

}  // namespace

std::vector<Observation> observe(const MeasuredPlan& plan) {
  const Bindings bindings = mean_bindings(plan);
  const Durations predicted(plan.schedule, simulate(plan.schedule, bindings,
                                                    price(plan.schedule, bindings, plan.profile)));
  Durations measured(plan.schedule, Timeline{});
  for (std::size_t i = 0; i < plan.measured.size(); ++i) {
    Duration skew{};
    measured.add(plan.schedule, from_last_arrival(plan, i, skew));
  }
  std::vector<Observation> observations;
  for (std::size_t w = 0; w < plan.schedule.works.size(); ++w) {
    const Work& work = plan.schedule.works[w];
    if (predicted.of_work[w].empty() || kernel_class(work.kernel) == KernelClass::host) continue;
    observations.push_back({work.kernel, mean(predicted.of_work[w]), median(measured.of_work[w]),
                            static_cast<double>(predicted.of_work[w].size()),
                            floor_of(plan, work, bindings)});
  }
  return observations;
}

Calibration calibrate(const std::vector<std::pair<std::string, MeasuredPlan>>& fit_on,
                      const std::vector<std::pair<std::string, MeasuredPlan>>& score_on) {
  const Profile& profile = fit_on.front().second.profile;
  check_profiles(fit_on, digest(profile));
  check_profiles(score_on, digest(profile));
  std::vector<Observation> observations;
  std::string names;
  for (const auto& [name, plan] : fit_on) {
    const std::vector<Observation> of_plan = observe(plan);
    observations.insert(observations.end(), of_plan.begin(), of_plan.end());
    names += (names.empty() ? "" : ", ") + name;
  }
  Calibration result;
  result.scales = fit_scales(observations);
  Named<double> scales;
  for (const KernelScale& scale : result.scales)
    scales.entries.emplace_back(name(scale.kernel), scale.scale);
  result.overlay = overlay_of(profile, std::move(scales), "fitted to " + names);
  const Profile calibrated = with_overlay(profile, result.overlay);
  std::vector<Seconds> residuals;
  for (const auto& [name, plan] : score_on) {
    result.scores.push_back({name, measured_step(plan), predicted_with(plan, profile),
                             predicted_with(plan, calibrated)});
    residuals.push_back(Seconds(std::abs(result.scores.back().error_after())));
  }
  if (!residuals.empty()) result.overlay.residual_ratio = median(std::move(residuals)).value;
  return result;
}

}  // namespace xt
