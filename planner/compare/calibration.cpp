#include "planner/compare/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/sim/simulate.h"
#include "planner/compare/role_timeline.h"

namespace xt {
namespace {

// The mean duration of one op of each work in one step; zero of works without ops.
std::vector<Seconds> mean_durations(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Seconds> sums(schedule.works.size());
  std::vector<double> counts(schedule.works.size(), 0.0);
  for (const Event& event : timeline.events) {
    const std::size_t work = at(schedule.op(event.op).work);
    sums[work] += to_seconds(event.end - event.start);
    counts[work] += 1;
  }
  for (std::size_t w = 0; w < sums.size(); ++w)
    if (counts[w] > 0) sums[w] = sums[w] / counts[w];
  return sums;
}

std::vector<double> ops_by_work(const Schedule& schedule, const Timeline& timeline) {
  std::vector<double> counts(schedule.works.size(), 0.0);
  for (const Event& event : timeline.events) counts[at(schedule.op(event.op).work)] += 1;
  return counts;
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
  const Schedule& schedule = plan.schedule;
  const Bindings bindings = busiest_bindings(plan);
  const Timeline simulated = simulate(schedule, bindings, price(schedule, bindings, plan.profile));
  const std::vector<Seconds> predicted = mean_durations(schedule, simulated);
  const std::vector<double> counts = ops_by_work(schedule, simulated);
  std::vector<std::vector<Seconds>> steps;
  for (const Timeline& step : role_timelines(plan)) steps.push_back(mean_durations(schedule, step));
  std::vector<Observation> observations;
  for (std::size_t w = 0; w < schedule.works.size(); ++w) {
    const Work& work = schedule.works[w];
    if (counts[w] == 0 || kernel_class(work.kernel) == KernelClass::host) continue;
    std::vector<Seconds> measured;
    for (const std::vector<Seconds>& step : steps) measured.push_back(step[w]);
    observations.push_back({work.kernel, predicted[w], median(std::move(measured)), counts[w],
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
