// A pipeline priced: each distinct stage simulated once, chunk by chunk, then all stages together.

#include <algorithm>

#include "costmodel/sim/pipeline.h"
#include "planner/estimate/estimate_parts.h"
#include "planner/lower/pipeline.h"

namespace xt {
namespace {

// A distinct stage under some bindings.
struct StageRun {
  Bindings bindings;
  Prices prices;
  Timeline timeline;
};

StageRun run_of(const Schedule& schedule, Bindings bindings, const Profile& profile) {
  StageRun run;
  run.prices = price(schedule, bindings, profile);
  run.timeline = simulate(schedule, bindings, run.prices);
  run.bindings = std::move(bindings);
  return run;
}

// All stages together, with packs of so large a sum of squared lengths, or as assumed.
class Simulation {
 public:
  Simulation(const PipelineSchedule& pipeline, const Profile& profile,
             std::optional<double> squares = std::nullopt) {
    for (const Stage& stage : pipeline.distinct) {
      Bindings bindings = assumed_bindings(stage.schedule);
      if (squares) bindings = with_squares(stage.schedule, std::move(bindings), *squares);
      runs_.push_back(run_of(stage.schedule, std::move(bindings), profile));
      times_.sections.push_back(section_times(stage.schedule, runs_.back().timeline));
    }
    times_.transfers = transfer_times(pipeline, profile);
    timeline_ = xt::simulate(pipeline, times_);
  }

  Seconds step() const { return to_seconds(timeline_.end - Instant{}); }
  Seconds tail(std::size_t place) const { return to_seconds(timeline_.tails[place]); }
  Seconds longest_transfer() const {
    return to_seconds(*std::ranges::max_element(times_.transfers));
  }
  const std::vector<SectionTime>& sections(std::size_t distinct) const {
    return times_.sections[distinct];
  }
  StageRun& run(std::size_t distinct) { return runs_[distinct]; }

 private:
  std::vector<StageRun> runs_;
  PipelineTimes times_;
  PipelineTimeline timeline_;
};

// What one stage adds to the mean over all.
class Mean {
 public:
  Mean(const Plan& plan, const PipelineSchedule& pipeline, Simulation& simulation)
      : plan_(plan), pipeline_(pipeline), simulation_(simulation) {
    for (std::size_t i = 0; i < pipeline.distinct.size(); ++i)
      sections_.push_back(
          account_by_section(pipeline.distinct[i].schedule, simulation.run(i).timeline, spans(i)));
  }

  // The account of the stage at `place`, waiting for others left out.
  StepAccount add(std::size_t place, Estimate& sum) const {
    const std::size_t i = pipeline_.stages[place];
    const Stage& stage = pipeline_.distinct[i];
    const double share = 1.0 / static_cast<double>(pipeline_.stages.size());
    const std::vector<std::int32_t> runs =
        section_runs(stage, pipeline_.orders[place], pipeline_.micro_batches);
    StepAccount own;
    for (std::size_t s = 0; s < runs.size(); ++s) xt::add(own, sections_[i][s], runs[s]);
    const Traffic reduction =
        plan_.strategy.zero == 0 ? Traffic::all_reduce : Traffic::reduce_scatter;
    own.step += simulation_.tail(place);
    own.traffic[static_cast<std::size_t>(reduction)].exposed += simulation_.tail(place);
    xt::add(sum.account, own, share);
    const Bindings mean = mean_bindings(plan_, stage.schedule);
    sum.model_flops += model_flops(stage.schedule, runs, mean, counted_share(plan_)) * share;
    sum.hardware_flops += hardware_flops(stage.schedule, runs, mean) * share;
    return own;
  }

  // What the time of a distinct stage rests on, as often as stages are like it.
  EvidencePart evidence(std::size_t distinct) const {
    const Stage& stage = pipeline_.distinct[distinct];
    StageRun& run = simulation_.run(distinct);
    EvidencePart part{stage.schedule, run.timeline, run.bindings, {}, {}};
    part.times.assign(stage.schedule.sections.size(), 0.0);
    for (std::size_t place = 0; place < pipeline_.stages.size(); ++place) {
      if (pipeline_.stages[place] != distinct) continue;
      const std::vector<std::int32_t> runs =
          section_runs(stage, pipeline_.orders[place], pipeline_.micro_batches);
      for (std::size_t s = 0; s < runs.size(); ++s) part.times[s] += runs[s];
    }
    for (std::size_t s = 0; s < part.times.size(); ++s)
      xt::add(part.account, sections_[distinct][s], part.times[s]);
    return part;
  }

 private:
  // What counts of each section: opening and update, in which all stages meet, to their end.
  std::vector<Duration> spans(std::size_t distinct) const {
    std::vector<Duration> result;
    for (const SectionTime& time : simulation_.sections(distinct)) result.push_back(time.computed);
    result.front() = simulation_.sections(distinct).front().drained;
    result.back() = simulation_.sections(distinct).back().drained;
    return result;
  }

  const Plan& plan_;
  const PipelineSchedule& pipeline_;
  Simulation& simulation_;
  std::vector<std::vector<StepAccount>> sections_;  // by distinct stage
};

// Of the stage that has most there.
MemoryPeak host_peak(const PipelineSchedule& pipeline, Simulation& simulation) {
  MemoryPeak highest;
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    const MemoryPeak peak =
        stage_peak(pipeline.stage(place), pipeline.orders[place], pipeline.micro_batches,
                   simulation.run(pipeline.stages[place]).bindings, Space::host)
            .memory;
    if (place == 0 || peak.peak > highest.peak) highest = peak;
  }
  return highest;
}

// Takes over what `estimate` shows of the stage at `place`, whose peak is `peak`.
void show(Estimate& estimate, const Plan& plan, PipelineSchedule& pipeline, Simulation& simulation,
          const MemoryPeak& peak) {
  const std::size_t place = estimate.pipeline->fullest;
  Stage& stage = pipeline.distinct[pipeline.stages[place]];
  StageRun& run = simulation.run(pipeline.stages[place]);
  estimate.runs = section_runs(stage, pipeline.orders[place], pipeline.micro_batches);
  const MemoryPeak on_host = host_peak(pipeline, simulation);
  estimate.device = device_memory(plan.profile, stage.schedule, peak.peak, peak.peak, 1);
  estimate.prices = std::move(run.prices);
  estimate.timeline = std::move(run.timeline);
  estimate.timeline.device_memory = peak;
  estimate.timeline.host_memory = on_host;
  estimate.schedule = std::move(stage.schedule);
}

}  // namespace

Estimate estimate_pipeline(const Plan& plan) {
  PipelineSchedule pipeline = lower_pipeline(graph_of(plan), plan.strategy);
  Simulation simulation(pipeline, plan.profile);
  const Mean mean(plan, pipeline, simulation);
  Estimate result;
  PipelineAnswer answer;
  answer.transfer = simulation.longest_transfer();
  MemoryPeak highest;
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    const Stage& stage = pipeline.stage(place);
    StagePeak peak = stage_peak(stage, pipeline.orders[place], pipeline.micro_batches,
                                simulation.run(pipeline.stages[place]).bindings, Space::device);
    const Seconds busy = mean.add(place, result).step;
    answer.stages.push_back({stage.layers, peak.memory.peak, busy, simulation.step() - busy});
    if (peak.memory.peak <= highest.peak) continue;
    highest = peak.memory;
    answer.fullest = place;
    answer.runs_before_peak = std::move(peak.runs);
  }
  answer.bubble = simulation.step() - result.account.step;
  result.account.idle += answer.bubble;
  result.account.step = simulation.step();
  result.pipeline = std::move(answer);
  result.data = data_effect(
      plan, [&](double squares) { return Simulation(pipeline, plan.profile, squares).step(); });
  std::vector<EvidencePart> parts;
  for (std::size_t i = 0; i < pipeline.distinct.size(); ++i) parts.push_back(mean.evidence(i));
  rest_on(result, plan, parts);
  result.peak = plan.profile.peak(plan.strategy.compute_dtype)->value;
  result.host_memory = plan.profile.host_memory.value;
  show(result, plan, pipeline, simulation, highest);
  return result;
}

}  // namespace xt
