#include <fmt/format.h>

#include "costmodel/io/files.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/yaml.h"
#include "planner/compare/compare.h"

namespace xt {
namespace {

void check_events(const std::filesystem::path& path, const Schedule& schedule,
                  const Timeline& timeline) {
  std::size_t expected = 0;
  for (const Section& section : schedule.sections)
    expected += (at(section.end) - at(section.begin)) * static_cast<std::size_t>(section.repeat);
  if (timeline.schedule_digest != digest(schedule))
    throw InputError(fmt::format("{} was measured on another schedule", path.string()),
                     "run xt-run train again on this plan");
  if (timeline.events.size() != expected || timeline.bindings.empty() ||
      timeline.bindings.front().size() != schedule.symbols.size())
    throw InputError(fmt::format("{} holds {} of {} events of a step", path.string(),
                                 timeline.events.size(), expected),
                     "run xt-run train again on this plan");
}

void append(MeasuredPlan& plan, const std::filesystem::path& path) {
  TimelineFile file = read_timelines(path);
  for (std::size_t i = 0; i < file.timelines.size(); ++i) {
    check_events(path, plan.schedule, file.timelines[i]);
    if (file.timelines[i].step <= 1) continue;
    plan.measured.push_back(std::move(file.timelines[i]));
    plan.clock_offsets.push_back(file.clock_offsets[i]);
    plan.step_starts.push_back(file.step_starts[i]);
  }
}

}  // namespace

MeasuredPlan read_measured_plan(const std::filesystem::path& directory) {
  MeasuredPlan plan;
  plan.plan = read_plan(directory);
  plan.profile = read<Profile>(read_yaml(directory / "profile.yaml"));
  plan.schedule = read_schedule(directory / schedule_file_name);
  plan.predicted = read_timelines(directory / predicted_file_name).timelines.at(0);
  check_events(directory / predicted_file_name, plan.schedule, plan.predicted);
  append(plan, directory / measured_file_name);
  for (std::int64_t rank = 1; rank < plan.plan.ranks; ++rank) {
    const std::filesystem::path path = directory / fmt::format("measured.rank{}.jsonl", rank);
    if (file_exists(path)) append(plan, path);
  }
  if (plan.measured.empty())
    throw InputError(
        fmt::format("{} holds no step after the first", (directory / measured_file_name).string()),
        "xt-run train PLAN --record-steps 3-8 records some");
  return plan;
}

}  // namespace xt
