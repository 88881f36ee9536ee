#include "planner/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/yaml.h"
#include "costmodel/sim/simulate.h"
#include "planner/compare/role_timeline.h"

namespace xt {
namespace {

using PerKernel = std::array<Seconds, n_kernels>;

PerKernel by_kernel(const Schedule& schedule, const Timeline& timeline) {
  PerKernel sums{};
  for (const Event& event : timeline.events) {
    const Kernel kernel = schedule.work(schedule.op(event.op)).kernel;
    sums[static_cast<std::size_t>(kernel)] += to_seconds(event.end - event.start);
  }
  return sums;
}

// The median of one member over all accounts.
template <typename Pick>
Seconds median_of(const std::vector<StepAccount>& accounts, Pick pick) {
  std::vector<Seconds> values;
  values.reserve(accounts.size());
  for (const StepAccount& account : accounts) values.push_back(pick(account));
  return median(std::move(values));
}

StepAccount median_account(const std::vector<StepAccount>& accounts) {
  StepAccount result;
  result.step = median_of(accounts, [](const StepAccount& a) { return a.step; });
  result.compute = median_of(accounts, [](const StepAccount& a) { return a.compute; });
  result.idle = median_of(accounts, [](const StepAccount& a) { return a.idle; });
  for (std::size_t i = 0; i < n_phases; ++i)
    result.phases[i] = median_of(accounts, [i](const StepAccount& a) { return a.phases[i]; });
  for (std::size_t i = 0; i < n_traffic; ++i) {
    result.traffic[i].total =
        median_of(accounts, [i](const StepAccount& a) { return a.traffic[i].total; });
    result.traffic[i].exposed =
        median_of(accounts, [i](const StepAccount& a) { return a.traffic[i].exposed; });
  }
  return result;
}

std::vector<KernelTime> kernel_times(const MeasuredPlan& plan,
                                     const std::vector<Timeline>& measured) {
  const PerKernel predicted = by_kernel(plan.schedule, plan.predicted);
  std::vector<PerKernel> all;
  all.reserve(measured.size());
  for (const Timeline& timeline : measured) all.push_back(by_kernel(plan.schedule, timeline));
  std::vector<KernelTime> result;
  for (std::size_t k = 0; k < n_kernels; ++k) {
    std::vector<Seconds> values;
    for (const PerKernel& sums : all) values.push_back(sums[k]);
    const KernelTime time{static_cast<Kernel>(k), predicted[k], median(std::move(values))};
    if (time.predicted.value > 0 || time.measured.value > 0) result.push_back(time);
  }
  std::sort(result.begin(), result.end(), [](const KernelTime& a, const KernelTime& b) {
    return std::abs((a.measured - a.predicted).value) > std::abs((b.measured - b.predicted).value);
  });
  return result;
}

std::vector<Seconds> rank_medians(const std::vector<Timeline>& measured) {
  std::vector<std::vector<Seconds>> steps;
  for (const Timeline& timeline : measured) {
    const auto rank = static_cast<std::size_t>(timeline.rank);
    if (steps.size() <= rank) steps.resize(rank + 1);
    steps[rank].push_back(to_seconds(makespan(timeline)));
  }
  std::vector<Seconds> result;
  for (std::vector<Seconds>& of : steps) result.push_back(median(std::move(of)));
  return result;
}

// Rows of the rank with most over the mean of the ranks, over all exchanges.
std::optional<double> routing_imbalance(const MeasuredPlan& plan, const Bindings& busiest) {
  double mean = 0, n = 0;
  const std::vector<Symbol>& symbols = plan.schedule.symbols;
  const auto rows = [&](const Bindings& bindings) {
    double sum = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].kind == SymbolKind::rows_received) sum += static_cast<double>(bindings[i]);
    return sum;
  };
  for (const Timeline& timeline : plan.measured)
    for (const Bindings& bindings : timeline.bindings) {
      mean += rows(bindings);
      n += 1;
    }
  if (mean <= 0) return std::nullopt;
  return rows(busiest) / (mean / n);
}

}  // namespace

Seconds median(std::vector<Seconds> values) {
  if (values.empty()) return Seconds();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2.0;
}

Bindings busiest_bindings(const MeasuredPlan& plan) {
  std::map<std::pair<std::int32_t, std::size_t>, Bindings> most;  // by step and micro-step
  for (const Timeline& timeline : plan.measured) {
    for (std::size_t m = 0; m < timeline.bindings.size(); ++m) {
      const auto [entry, is_new] = most.try_emplace({timeline.step, m}, timeline.bindings[m]);
      for (std::size_t i = 0; i < entry->second.size(); ++i)
        entry->second[i] = std::max(entry->second[i], timeline.bindings[m][i]);
    }
  }
  std::vector<double> sums(plan.schedule.symbols.size(), 0.0);
  for (const auto& [place, bindings] : most)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(bindings[i]);
  Bindings result;
  for (const double sum : sums)
    result.push_back(std::llround(sum / static_cast<double>(most.size())));
  return result;
}

MemoryPeak memory_on_data(const Schedule& schedule, const Timeline& timeline) {
  MemoryPeak highest;
  for (std::size_t i = 0; i < timeline.bindings.size(); ++i) {
    const Bindings& bindings = timeline.bindings[i];
    const std::vector<Bytes> curve = memory_curve(schedule, bindings, Space::device);
    for (std::size_t s = 0; s < schedule.sections.size(); ++s) {
      const Section& section = schedule.sections[s];
      const bool belongs_to_first = s <= 1;
      if (timeline.bindings.size() > 1 && belongs_to_first != (i == 0)) continue;
      for (std::size_t op = at(section.begin); op < at(section.end); ++op)
        if (curve[op] > highest.peak)
          highest =
              memory_at(schedule, bindings, Space::device, OpId(static_cast<std::uint32_t>(op)));
    }
  }
  return highest;
}

Timeline from_last_arrival(const MeasuredPlan& plan, std::size_t index, Duration& skew) {
  Timeline timeline = plan.measured[index];
  const Duration offset = plan.clock_offsets[index];
  skew = Duration{};
  for (std::size_t e = 0; e < timeline.events.size(); ++e) {
    const Work& work = plan.schedule.work(plan.schedule.op(timeline.events[e].op));
    if (kernel_class(work.kernel) != KernelClass::collective) continue;
    const GroupShape& group = plan.schedule.group(work.group);
    Instant arrival = timeline.events[e].start;
    for (std::size_t other = 0; other < plan.measured.size(); ++other) {
      const Timeline& peer = plan.measured[other];
      if (peer.step != timeline.step ||
          group_of(group, peer.rank) != group_of(group, timeline.rank))
        continue;
      arrival = std::max(arrival, peer.events[e].start + plan.clock_offsets[other] - offset);
    }
    arrival = std::min(arrival, timeline.events[e].end);
    skew += arrival - timeline.events[e].start;
    timeline.events[e].start = arrival;
  }
  return timeline;
}

Comparison compare(const MeasuredPlan& plan) {
  Comparison result;
  const Bindings bindings = busiest_bindings(plan);
  const Prices prices = price(plan.schedule, bindings, plan.profile);
  result.routing_imbalance = routing_imbalance(plan, bindings);
  result.predicted = to_seconds(makespan(plan.predicted));
  result.on_data = to_seconds(makespan(simulate(plan.schedule, bindings, prices)));
  std::vector<Seconds> steps, replays, skews;
  for (const Timeline& step : role_timelines(plan))
    replays.push_back(to_seconds(makespan(replay(plan.schedule, step, prices))));
  std::vector<StepAccount> accounts;
  std::vector<Timeline> arrived;
  for (std::size_t i = 0; i < plan.measured.size(); ++i) {
    Duration skew{};
    arrived.push_back(from_last_arrival(plan, i, skew));
    skews.push_back(to_seconds(skew));
    accounts.push_back(account(plan.schedule, arrived.back()));
    steps.push_back(to_seconds(makespan(plan.measured[i])));
    if (plan.measured[i].device_memory.peak > result.measured_memory.peak) {
      result.measured_memory = plan.measured[i].device_memory;
      result.on_data_memory = memory_on_data(plan.schedule, plan.measured[i]);
    }
  }
  result.measured = median(std::move(steps));
  result.replayed = median(std::move(replays));
  result.skew = median(std::move(skews));
  result.predicted_account = account(plan.schedule, plan.predicted);
  result.measured_account = median_account(accounts);
  result.kernels = kernel_times(plan, arrived);
  result.rank_medians = rank_medians(plan.measured);
  result.predicted_memory = plan.predicted.device_memory;
  return result;
}

}  // namespace xt
