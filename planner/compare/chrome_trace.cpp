// Source: Trace Event Format, Google 2016, complete events (`ph` X) and metadata (`ph` M)

#include <fmt/format.h>

#include "planner/compare/compare.h"

namespace xt {
namespace {

Json metadata(std::string_view kind, std::int64_t process, std::int64_t thread,
              const std::string& name) {
  return Json::object({{"ph", "M"},
                       {"name", kind},
                       {"pid", process},
                       {"tid", thread},
                       {"args", Json::object({{"name", name}})}});
}

void append(Json& events, const Schedule& schedule, const Timeline& timeline, std::int64_t process,
            const std::string& title) {
  events.push_back(metadata("process_name", process, 0, title));
  for (std::size_t lane = 0; lane < n_lanes; ++lane)
    events.push_back(metadata("thread_name", process, static_cast<std::int64_t>(lane),
                              std::string(lane_names[lane])));
  for (const Event& event : timeline.events) {
    const Op& op = schedule.op(event.op);
    const auto microseconds = [](Duration d) { return static_cast<double>(d.count()) * 1e-3; };
    events.push_back(
        Json::object({{"ph", "X"},
                      {"name", op_name(schedule, event.op)},
                      {"cat", phase_names[static_cast<std::size_t>(op.origin.phase)]},
                      {"pid", process},
                      {"tid", static_cast<std::int64_t>(op.lane)},
                      {"ts", microseconds(event.start - Instant{})},
                      {"dur", microseconds(event.end - event.start)},
                      {"args", Json::object({{"op", static_cast<std::int64_t>(at(event.op))},
                                             {"repeat", event.repeat}})}}));
  }
}

}  // namespace

Json chrome_trace(const MeasuredPlan& plan) {
  Json events = Json::array();
  append(events, plan.schedule, plan.predicted, 0, "predicted");
  for (const Timeline& timeline : plan.measured) {
    if (timeline.step != plan.measured.front().step) continue;
    append(events, plan.schedule, timeline, timeline.rank + 1,
           fmt::format("measured, rank {}, step {}", timeline.rank, timeline.step));
  }
  return Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace xt
