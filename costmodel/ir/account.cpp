#include "costmodel/ir/account.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

struct Span {
  Instant start;
  Instant end;
};

// Sorted spans without overlaps. Those of one lane are sorted as they come.
std::vector<Span> merged(std::vector<Span> spans) {
  const auto begins_before = [](const Span& a, const Span& b) { return a.start < b.start; };
  if (!std::is_sorted(spans.begin(), spans.end(), begins_before))
    std::sort(spans.begin(), spans.end(), begins_before);
  std::size_t n = 0;
  for (const Span& span : spans) {
    if (n > 0 && span.start <= spans[n - 1].end) {
      spans[n - 1].end = std::max(spans[n - 1].end, span.end);
    } else {
      spans[n++] = span;
    }
  }
  spans.resize(n);
  return spans;
}

Duration length(const std::vector<Span>& spans) {
  Duration sum{};
  for (const Span& span : spans) sum += span.end - span.start;
  return sum;
}

// How much of `spans` lies inside `cover`; both sorted and without overlaps.
Duration common(const std::vector<Span>& spans, const std::vector<Span>& cover) {
  Duration sum{};
  std::size_t first = 0;
  for (const Span& span : spans) {
    while (first < cover.size() && cover[first].end <= span.start) ++first;
    for (std::size_t i = first; i < cover.size() && cover[i].start < span.end; ++i)
      sum += std::min(span.end, cover[i].end) - std::max(span.start, cover[i].start);
  }
  return sum;
}

}  // namespace

std::optional<Traffic> traffic_of(Kernel kernel) {
  if (kernel == Kernel::all_gather || kernel == Kernel::broadcast) return Traffic::all_gather;
  if (kernel == Kernel::reduce_scatter) return Traffic::reduce_scatter;
  if (kernel == Kernel::all_reduce) return Traffic::all_reduce;
  if (kernel == Kernel::all_to_all || kernel == Kernel::exchange_counts ||
      kernel == Kernel::exchange_heads || kernel == Kernel::send_receive)
    return Traffic::all_to_all;
  if (kernel == Kernel::copy_to_host) return Traffic::swap_out;
  if (kernel == Kernel::copy_to_device) return Traffic::swap_in;
  return std::nullopt;
}

StepAccount account(const Schedule& schedule, const Timeline& timeline) {
  return account(schedule, timeline.events, makespan(timeline));
}

StepAccount account(const Schedule& schedule, std::span<const Event> events, Duration span) {
  StepAccount result;
  std::vector<Span> compute;
  compute.reserve(events.size());
  std::array<std::vector<Span>, n_traffic> traffic;
  for (const Event& event : events) {
    const Op& op = schedule.op(event.op);
    const Span ran{event.start, event.end};
    if (const auto kind = traffic_of(schedule.work(op).kernel)) {
      traffic[static_cast<std::size_t>(*kind)].push_back(ran);
    } else if (op.lane == Lane::compute) {
      compute.push_back(ran);
      result.phases[static_cast<std::size_t>(op.origin.phase)] += to_seconds(ran.end - ran.start);
    }
  }
  compute = merged(std::move(compute));
  result.step = to_seconds(span);
  result.compute = to_seconds(length(compute));
  std::vector<Span> busy = compute;
  for (std::size_t kind = 0; kind < n_traffic; ++kind) {
    const std::vector<Span> spans = merged(std::move(traffic[kind]));
    const Duration total = length(spans);
    result.traffic[kind].total = to_seconds(total);
    result.traffic[kind].exposed = to_seconds(total - common(spans, compute));
    busy.insert(busy.end(), spans.begin(), spans.end());
  }
  result.idle = result.step - to_seconds(length(merged(std::move(busy))));
  return result;
}

std::vector<StepAccount> account_by_section(const Schedule& schedule, const Timeline& timeline,
                                            std::span<const Duration> spans) {
  XT_CHECK(timeline.events.size() == schedule.ops.size());
  std::vector<StepAccount> result;
  Instant start{};
  for (std::size_t s = 0; s < schedule.sections.size(); ++s) {
    const std::size_t begin = at(schedule.sections[s].begin), end = at(schedule.sections[s].end);
    const std::span<const Event> events = std::span(timeline.events).subspan(begin, end - begin);
    std::vector<Event> shown(events.begin(), events.end());
    for (Event& event : shown) {
      event.start = std::min(event.start, start + spans[s]);
      event.end = std::min(event.end, start + spans[s]);
    }
    result.push_back(account(schedule, shown, spans[s]));
    const StepAccount all = account(schedule, events, spans[s]);
    for (std::size_t kind = 0; kind < n_traffic; ++kind)
      result.back().traffic[kind].total = all.traffic[kind].total;
    for (const Event& event : events) start = std::max(start, event.end);
  }
  return result;
}

void add(StepAccount& sum, const StepAccount& more, double times) {
  sum.step += more.step * times;
  sum.compute += more.compute * times;
  sum.idle += more.idle * times;
  for (std::size_t i = 0; i < n_phases; ++i) sum.phases[i] += more.phases[i] * times;
  for (std::size_t i = 0; i < n_traffic; ++i) {
    sum.traffic[i].total += more.traffic[i].total * times;
    sum.traffic[i].exposed += more.traffic[i].exposed * times;
  }
}

}  // namespace xt
