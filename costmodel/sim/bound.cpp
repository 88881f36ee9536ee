#include "costmodel/sim/bound.h"

#include <algorithm>
#include <array>

namespace xt {
namespace {

// What each work takes of its lane and of the issuing thread.
struct Parts {
  Duration alone;
  Duration issue;
};

std::vector<Parts> parts_of(const Prices& prices) {
  std::vector<Parts> parts;
  parts.reserve(prices.demands.size());
  for (const Demand& demand : prices.demands)
    parts.push_back({quantize(alone(demand)), quantize(demand.issue)});
  return parts;
}

Duration section_bound(const Schedule& schedule, const Section& section, const Prices& prices,
                       const std::vector<Parts>& parts, BoundOf of,
                       const std::vector<std::int64_t>& copies) {
  constexpr auto host = static_cast<std::size_t>(Lane::host);
  constexpr auto compute = static_cast<std::size_t>(Lane::compute);
  std::array<Duration, n_lanes> lanes{};
  Duration issue{};
  for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
    const Op& op = schedule.ops[i];
    const bool is_behind = op.lane == Lane::all_gather || op.lane == Lane::reduce_scatter ||
                           op.lane == Lane::swap_out || op.lane == Lane::swap_in ||
                           i + 1 == at(section.end);  // the wait for all of it
    if (of == BoundOf::handing_over && is_behind) continue;
    const Parts& part = parts[at(op.work)];
    const std::int64_t n = copies.empty() || op.origin.layer < 0
                               ? 1
                               : copies[static_cast<std::size_t>(op.origin.layer)];
    lanes[static_cast<std::size_t>(op.lane)] += n * part.alone;
    issue += n * part.issue;
  }
  // What holds the issuing thread is issued by it, too.
  lanes[host] += issue;
  if (prices.computes_inline) lanes[host] += lanes[compute];
  return *std::ranges::max_element(lanes);
}

}  // namespace

std::vector<Duration> section_bounds(const Schedule& schedule, const Prices& prices, BoundOf of,
                                     const std::vector<std::int64_t>& copies) {
  const std::vector<Parts> parts = parts_of(prices);
  std::vector<Duration> bounds;
  for (const Section& section : schedule.sections)
    bounds.push_back(section_bound(schedule, section, prices, parts, of, copies));
  return bounds;
}

Duration lower_bound(const Schedule& schedule, const Prices& prices,
                     const std::vector<std::int64_t>& copies) {
  const std::vector<Duration> bounds = section_bounds(schedule, prices, BoundOf::all, copies);
  Duration sum{};
  for (std::size_t i = 0; i < bounds.size(); ++i) sum += schedule.sections[i].repeat * bounds[i];
  return sum;
}

}  // namespace xt
