#include "costmodel/sim/simulate.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "costmodel/sim/section_run.h"

namespace xt {
namespace {

std::vector<Share> shares(const Prices& prices) {
  return {prices.demands.begin(), prices.demands.end()};
}

// By work. Without contention no op shares anything.
std::vector<OpCost> predicted_costs(const Prices& prices, std::span<const Share> shares) {
  std::vector<OpCost> costs;
  costs.reserve(prices.demands.size());
  for (std::size_t i = 0; i < prices.demands.size(); ++i)
    costs.push_back({quantize(alone(prices.demands[i])), quantize(prices.demands[i].issue),
                     shares.empty() ? nullptr : &shares[i]});
  return costs;
}

// Makes room for one more pass through `section`.
std::span<Event> appended(std::vector<Event>& events, std::size_t size) {
  events.resize(events.size() + size);
  return std::span(events).last(size);
}

// The events of a repetition again, `period` later.
void repeat_events(std::vector<Event>& events, std::size_t size, Duration period) {
  const std::size_t first = events.size() - size;
  for (std::size_t i = first; i < first + size; ++i) {
    const Event event = events[i];
    events.push_back({event.op, event.repeat + 1, event.start + period, event.end + period});
  }
}

std::size_t n_events(const Schedule& schedule) {
  std::size_t n = 0;
  for (const Section& section : schedule.sections)
    n += (at(section.end) - at(section.begin)) * static_cast<std::size_t>(section.repeat);
  return n;
}

Timeline opened(const Schedule& schedule, const Bindings& bindings) {
  Timeline timeline;
  timeline.schedule_digest = digest(schedule);
  timeline.bindings = {bindings};
  const auto peaks = memory_peaks(schedule, bindings);
  timeline.device_memory = peaks[static_cast<std::size_t>(Space::device)];
  timeline.host_memory = peaks[static_cast<std::size_t>(Space::host)];
  return timeline;
}

Timeline run(const Schedule& schedule, const Bindings& bindings, const Prices& prices,
             std::span<const Share> shares) {
  Timeline timeline = opened(schedule, bindings);
  const std::vector<OpCost> costs = predicted_costs(prices, shares);
  timeline.events.reserve(n_events(schedule));
  for (const Section& section : schedule.sections) {
    const std::size_t size = at(section.end) - at(section.begin);
    const SectionLanes lanes(schedule, section);
    const SectionPass pass{schedule, section, lanes, OpCosts::by_work(costs),
                           prices.computes_inline};
    const Duration period = run_section(pass, appended(timeline.events, size), 0, timeline.end);
    for (std::int32_t again = 1; again < section.repeat; ++again)
      repeat_events(timeline.events, size, period);
    timeline.end += section.repeat * period;
  }
  return timeline;
}

}  // namespace

Prices price(const Schedule& schedule, const Bindings& bindings, const Profile& profile) {
  Prices prices;
  prices.computes_inline = profile.compute_issue == ComputeIssue::inlined;
  prices.demands.reserve(schedule.works.size());
  const double clock = slowest_clock(profile, schedule.ranks);
  for (const Work& work : schedule.works)
    prices.demands.push_back(demand(work, bindings, schedule.group(work.group), profile, clock));
  return prices;
}

Timeline simulate(const Schedule& schedule, const Bindings& bindings, const Prices& prices) {
  return run(schedule, bindings, prices, shares(prices));
}

Timeline forward_pass(const Schedule& schedule, const Bindings& bindings, const Prices& prices) {
  return run(schedule, bindings, prices, {});
}

Timeline replay(const Schedule& schedule, const Timeline& measured, const Prices& prices) {
  Timeline timeline;
  timeline.schedule_digest = measured.schedule_digest;
  timeline.bindings = measured.bindings;
  timeline.device_memory = measured.device_memory;
  timeline.host_memory = measured.host_memory;
  timeline.events.reserve(n_events(schedule));
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
      const SectionPass pass{schedule, section, lanes, OpCosts::by_position(costs),
                             prices.computes_inline};
      timeline.end += run_section(pass, appended(timeline.events, size), repeat, timeline.end);
    }
  }
  return timeline;
}

}  // namespace xt
