#include "planner/estimate/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace xt {
namespace {

// What is exposed of all traffic over the sum of what is exposed of each kind: kinds that are
// exposed at the same time share it.
double shared(const StepAccount& counted) {
  double sum = 0;
  for (const TrafficTime& time : counted.traffic) sum += time.exposed.value;
  const double exposed = (counted.step - counted.compute - counted.idle).value;
  return sum > 0 ? exposed / sum : 0;
}

// How often an op's event counts, by op.
std::vector<double> times_of_ops(const EvidencePart& part) {
  std::vector<double> times(part.schedule.ops.size(), 0.0);
  for (std::size_t s = 0; s < part.times.size(); ++s)
    for (std::size_t i = at(part.schedule.sections[s].begin); i < at(part.schedule.sections[s].end);
         ++i)
      times[i] = part.times[s];
  return times;
}

// Of all ops of each kind, also of those that run at the same time on lanes of their own.
std::array<double, n_traffic> traffic_seconds(const EvidencePart& of,
                                              const std::vector<double>& times) {
  std::array<double, n_traffic> sums{};
  for (const Event& event : of.timeline.events)
    if (const auto kind = traffic_of(of.schedule.work(of.schedule.op(event.op)).kernel))
      sums[static_cast<std::size_t>(*kind)] +=
          to_seconds(event.end - event.start).value * times[at(event.op)];
  return sums;
}

// Seconds of the step that the ops of each work decide: what they compute, and their part of the
// exposed time of their kind of traffic.
std::vector<double> decided_seconds(const EvidencePart& of) {
  const double part = shared(of.account);
  const std::vector<double> times = times_of_ops(of);
  const std::array<double, n_traffic> lengths = traffic_seconds(of, times);
  std::vector<double> seconds(of.schedule.works.size(), 0.0);
  for (const Event& event : of.timeline.events) {
    const Op& op = of.schedule.op(event.op);
    const double length = to_seconds(event.end - event.start).value * times[at(event.op)];
    if (op.lane == Lane::compute) seconds[at(op.work)] += length;
    const auto kind = traffic_of(of.schedule.work(op).kernel);
    if (!kind) continue;
    const auto k = static_cast<std::size_t>(*kind);
    if (lengths[k] > 0)
      seconds[at(op.work)] += length * part * (of.account.traffic[k].exposed.value / lengths[k]);
  }
  return seconds;
}

using Decided = std::map<std::string, std::pair<Provenance, double>>;

void add_decided(Decided& decided, const EvidencePart& part, const Profile& profile) {
  const std::vector<double> seconds = decided_seconds(part);
  for (std::size_t w = 0; w < seconds.size(); ++w) {
    const Work& work = part.schedule.works[w];
    if (seconds[w] <= 0) continue;
    const Basis basis = weakest(work, part.bindings, part.schedule.group(work.group), profile);
    auto& [from, sum] = decided[basis.path];
    from = basis.from;
    sum += seconds[w];
  }
}

}  // namespace

Evidence evidence(std::span<const EvidencePart> parts, const Profile& profile) {
  Decided decided;
  double step = 0;
  for (const EvidencePart& part : parts) {
    add_decided(decided, part, profile);
    step += part.account.step.value;
  }
  Evidence result;
  for (const auto& [path, number] : decided) {
    const double share = number.second / step;
    result.by_grade[static_cast<std::size_t>(number.first.grade)] += share;
    result.numbers.push_back({{path, number.first}, share});
  }
  std::ranges::sort(result.numbers, std::greater(), &EvidenceShare::share);
  return result;
}

double relative_deviation(const Evidence& evidence) {
  constexpr std::array<double, grade_names.size()> deviation = {0.03, 0.08, 0.12, 0.25};
  double sum = 0;
  for (const EvidenceShare& of : evidence.numbers) {
    const double part = of.share * deviation[static_cast<std::size_t>(of.number.from.grade)];
    sum += part * part;
  }
  return std::sqrt(sum);
}

Interval interval_80(double value, double relative_deviation) {
  constexpr double normal_quantile_90 = 1.2815515655446004;
  const double factor = std::exp(normal_quantile_90 * relative_deviation);
  return {value / factor, value * factor};
}

const EvidenceShare* weakest_that_matters(const Evidence& evidence) {
  constexpr double matters = 0.05;
  const EvidenceShare* worst = nullptr;
  for (const EvidenceShare& of : evidence.numbers)
    if (of.share >= matters && (!worst || of.number.from.grade > worst->number.from.grade))
      worst = &of;
  return worst;
}

}  // namespace xt
