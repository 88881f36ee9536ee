#include "costmodel/sim/simulate.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "costmodel/sim/section_run.h"

namespace xt {
namespace {

std::vector<OpCost> predicted_costs(const Schedule& schedule, const Prices& prices,
                                    bool has_contention) {
  std::vector<OpCost> by_work;
  by_work.reserve(prices.demands.size());
  for (const Demand& demand : prices.demands)
    by_work.push_back({quantize(alone(demand)), quantize(demand.issue),
                       has_contention ? &demand : nullptr, alone(demand).value});
  std::vector<OpCost> costs;
  costs.reserve(schedule.ops.size());
  for (const Op& op : schedule.ops) costs.push_back(by_work[at(op.work)]);
  return costs;
}

void append(Timeline& timeline, const Section& section, const std::vector<OpSpan>& spans,
            Instant start, std::int32_t repeat) {
  for (std::size_t i = 0; i < spans.size(); ++i)
    timeline.events.push_back({OpId(static_cast<std::uint32_t>(at(section.begin) + i)), repeat,
                               start + spans[i].start, start + spans[i].end});
}

Timeline opened(const Schedule& schedule, const Bindings& bindings) {
  Timeline timeline;
  timeline.schedule_digest = digest(schedule);
  timeline.bindings = {bindings};
  timeline.device_memory = memory_peak(schedule, bindings, Space::device);
  timeline.host_memory = memory_peak(schedule, bindings, Space::host);
  return timeline;
}

Timeline run(const Schedule& schedule, const Bindings& bindings, const Prices& prices,
             bool has_contention) {
  Timeline timeline = opened(schedule, bindings);
  const std::vector<OpCost> costs = predicted_costs(schedule, prices, has_contention);
  for (const Section& section : schedule.sections) {
    const SectionLanes lanes(schedule, section);
    const auto part =
        std::span(costs).subspan(at(section.begin), at(section.end) - at(section.begin));
    SectionRun pass(schedule, section, lanes, part, prices.computes_inline);
    const std::vector<OpSpan> spans = pass.run();
    for (std::int32_t repeat = 0; repeat < section.repeat; ++repeat) {
      append(timeline, section, spans, timeline.end, repeat);
      timeline.end += pass.end();
    }
  }
  return timeline;
}

}  // namespace

Prices price(const Schedule& schedule, const Bindings& bindings, const Profile& profile) {
  Prices prices;
  prices.computes_inline = profile.compute_issue == ComputeIssue::inlined;
  prices.demands.reserve(schedule.works.size());
  for (const Work& work : schedule.works)
    prices.demands.push_back(demand(work, bindings, schedule.group(work.group), profile));
  return prices;
}

Timeline simulate(const Schedule& schedule, const Bindings& bindings, const Prices& prices) {
  return run(schedule, bindings, prices, true);
}

Timeline forward_pass(const Schedule& schedule, const Bindings& bindings, const Prices& prices) {
  return run(schedule, bindings, prices, false);
}

Timeline replay(const Schedule& schedule, const Timeline& measured, const Prices& prices) {
  Timeline timeline;
  timeline.schedule_digest = measured.schedule_digest;
  timeline.bindings = measured.bindings;
  timeline.device_memory = measured.device_memory;
  timeline.host_memory = measured.host_memory;
  std::size_t next = 0;
  for (const Section& section : schedule.sections) {
    const SectionLanes lanes(schedule, section);
    const std::size_t size = at(section.end) - at(section.begin);
    std::vector<OpCost> costs(size);
    for (std::int32_t repeat = 0; repeat < section.repeat; ++repeat) {
      for (std::size_t i = 0; i < size; ++i, ++next) {
        XT_CHECK(next < measured.events.size() &&
                 at(measured.events[next].op) == at(section.begin) + i);
        const Event& event = measured.events[next];
        const Op& op = schedule.op(event.op);
        const Demand& demand = prices.demands[at(op.work)];
        const bool waits = op.lane == Lane::host;  // its event is mostly the waiting itself
        costs[i].duration = waits ? quantize(alone(demand)) : event.end - event.start;
        costs[i].issue = quantize(demand.issue);
      }
      SectionRun pass(schedule, section, lanes, costs, prices.computes_inline);
      append(timeline, section, pass.run(), timeline.end, repeat);
      timeline.end += pass.end();
    }
  }
  return timeline;
}

}  // namespace xt
