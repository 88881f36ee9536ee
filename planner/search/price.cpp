// Memory and bound of a candidate, and its simulation: of one schedule, or of a pipeline's stages.

#include <algorithm>

#include "costmodel/sim/bound.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "planner/lower/pipeline.h"
#include "planner/search/condensed.h"
#include "planner/search/search.h"

namespace xt {
namespace {

void set_device(Outcome& outcome, const DeviceMemory& device, const Profile& profile) {
  outcome.in_use = device.p50();
  outcome.in_use_p95 = device.p95();
  outcome.fits = device.fit() != Fit::does_not_fit && outcome.host <= profile.host_memory.value;
}

// A schedule that candidates share, whatever the number of layers that each leaves out of it.
struct SharedStep {
  const Profile& profile;
  Schedule schedule;
  Bindings bindings = assumed_bindings(schedule);
  std::optional<Prices> prices = {};  // once a candidate fits

  Outcome outcome_of(const Condensed& step);
};

Outcome SharedStep::outcome_of(const Condensed& step) {
  const StepMemory memory = step_memory(schedule, bindings, step.left_out);
  Outcome outcome;
  outcome.peak = memory.device;
  outcome.host = memory.host;
  set_device(outcome, device_memory(profile, schedule, memory.device, memory.pooled), profile);
  if (!outcome.fits) return outcome;
  if (!prices) prices = price(schedule, bindings, profile);
  outcome.bound = to_seconds(lower_bound(schedule, *prices, step.copies()));
  return outcome;
}

Condensed step_of(const OpGraph& graph, const Strategy& strategy) {
  return is_condensable(strategy) ? condensed(graph, strategy)
                                  : Condensed{graph.layers, strategy, {}};
}

bool same_schedule(const Condensed& a, const Condensed& b) {
  return a.layers == b.layers && a.strategy == b.strategy;
}

std::vector<Outcome> outcomes_of_steps(const OpGraph& graph,
                                       const std::vector<Strategy>& strategies,
                                       const Profile& profile) {
  std::vector<Condensed> steps;
  for (const Strategy& strategy : strategies) steps.push_back(step_of(graph, strategy));
  std::vector<Outcome> outcomes(steps.size());
  std::vector<bool> is_done(steps.size());
  for (std::size_t first = 0; first < steps.size(); ++first) {
    if (is_done[first]) continue;
    SharedStep shared{profile, lower(graph, steps[first].layers, steps[first].strategy)};
    for (std::size_t i = first; i < steps.size(); ++i) {
      if (is_done[i] || !same_schedule(steps[first], steps[i])) continue;
      outcomes[i] = shared.outcome_of(steps[i]);
      is_done[i] = true;
    }
  }
  return outcomes;
}

// No pipeline is shorter than what the chunks of one stage take before they hand over.
Duration bound_of(const PipelineSchedule& pipeline, const Profile& profile) {
  std::vector<std::vector<Duration>> sections;
  for (const Stage& stage : pipeline.distinct) {
    const Prices prices = price(stage.schedule, assumed_bindings(stage.schedule), profile);
    sections.push_back(section_bounds(stage.schedule, prices, BoundOf::handing_over));
  }
  Duration longest{};
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    const std::vector<std::int32_t> runs =
        section_runs(pipeline.stage(place), pipeline.orders[place], pipeline.micro_batches);
    Duration sum{};
    for (std::size_t s = 0; s < runs.size(); ++s)
      sum += runs[s] * sections[pipeline.stages[place]][s];
    longest = std::max(longest, sum);
  }
  return longest;
}

Outcome outcome_of_pipeline(const OpGraph& graph, const Strategy& strategy,
                            const Profile& profile) {
  const PipelineSchedule pipeline = lower_pipeline(graph, strategy);
  Outcome outcome;
  std::size_t fullest = 0;
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    const Stage& stage = pipeline.stage(place);
    const Bindings bindings = assumed_bindings(stage.schedule);
    const auto peak = [&](Space space) {
      return stage_peak(stage, pipeline.orders[place], pipeline.micro_batches, bindings, space)
          .memory.peak;
    };
    const Bytes device = peak(Space::device);
    outcome.host = std::max(outcome.host, peak(Space::host));
    if (device > outcome.peak) fullest = place;
    outcome.peak = std::max(outcome.peak, device);
  }
  const Schedule& schedule = pipeline.stage(fullest).schedule;
  set_device(outcome, device_memory(profile, schedule, outcome.peak, outcome.peak, 1), profile);
  if (outcome.fits) outcome.bound = to_seconds(bound_of(pipeline, profile));
  return outcome;
}

}  // namespace

std::vector<Outcome> outcomes_of(const OpGraph& graph, const std::vector<Strategy>& strategies,
                                 const Profile& profile) {
  if (strategies.front().pipeline_parallel == 1)
    return outcomes_of_steps(graph, strategies, profile);
  std::vector<Outcome> outcomes;
  for (const Strategy& strategy : strategies)
    outcomes.push_back(outcome_of_pipeline(graph, strategy, profile));
  return outcomes;
}

StepAccount simulated(const Plan& plan, const OpGraph& graph) {
  if (plan.strategy.pipeline_parallel > 1) return estimate(plan).account;
  const Schedule schedule = lower(graph, plan.strategy);
  const Bindings bindings = assumed_bindings(schedule);
  return account(schedule, simulate(schedule, bindings, price(schedule, bindings, plan.profile)));
}

}  // namespace xt
