#include "planner/compare/role_timeline.h"

#include <algorithm>
#include <map>

namespace xt {
namespace {

bool is_collective(const Schedule& schedule, OpId op) {
  return kernel_class(schedule.work(schedule.op(op)).kernel) == KernelClass::collective;
}

bool computes(const Schedule& schedule, OpId op) { return schedule.op(op).lane == Lane::compute; }

// Whether ranks meet before `id` starts.
bool meets(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  if (op.lane != Lane::compute && op.lane != Lane::host) return false;
  return std::ranges::any_of(schedule.dependencies_of(op),
                             [&](OpId earlier) { return is_collective(schedule, earlier); });
}

// Positions of events before which ranks meet, the end included.
std::vector<std::size_t> meetings(const Schedule& schedule, const Timeline& any) {
  std::vector<std::size_t> positions;
  for (std::size_t e = 1; e < any.events.size(); ++e)
    if (meets(schedule, any.events[e].op)) positions.push_back(e);
  positions.push_back(any.events.size());
  return positions;
}

Duration computing(const Schedule& schedule, const Timeline& timeline, std::size_t begin,
                   std::size_t end) {
  Duration sum{};
  for (std::size_t e = begin; e < end; ++e)
    if (computes(schedule, timeline.events[e].op))
      sum += timeline.events[e].end - timeline.events[e].start;
  return sum;
}

Duration shortest(const std::vector<Timeline>& ranks, std::size_t event) {
  const auto length = [&](const Timeline& of) {
    return of.events[event].end - of.events[event].start;
  };
  Duration result = length(ranks.front());
  for (const Timeline& of : ranks) result = std::min(result, length(of));
  return result;
}

Timeline joined(const Schedule& schedule, const std::vector<Timeline>& ranks) {
  Timeline result = ranks.front();
  std::size_t begin = 0;
  for (const std::size_t end : meetings(schedule, result)) {
    const auto slowest = std::ranges::max_element(
        ranks, {}, [&](const Timeline& of) { return computing(schedule, of, begin, end); });
    for (std::size_t e = begin; e < end; ++e) {
      Event& event = result.events[e];
      const Duration length = is_collective(schedule, event.op)
                                  ? shortest(ranks, e)
                                  : slowest->events[e].end - slowest->events[e].start;
      event.start = Instant{};
      event.end = Instant{} + length;
    }
    begin = end;
  }
  return result;
}

}  // namespace

std::vector<Timeline> role_timelines(const MeasuredPlan& plan) {
  std::map<std::int32_t, std::vector<Timeline>> by_step;
  for (std::size_t i = 0; i < plan.measured.size(); ++i) {
    Duration skew{};
    by_step[plan.measured[i].step].push_back(from_last_arrival(plan, i, skew));
  }
  std::vector<Timeline> result;
  result.reserve(by_step.size());
  for (const auto& [step, ranks] : by_step) result.push_back(joined(plan.schedule, ranks));
  return result;
}

}  // namespace xt
