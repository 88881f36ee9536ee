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

}  // namespace

Duration lower_bound(const Schedule& schedule, const Prices& prices,
                     const std::vector<std::int64_t>& copies) {
  const std::vector<Parts> parts = parts_of(prices);
  constexpr auto host = static_cast<std::size_t>(Lane::host);
  constexpr auto compute = static_cast<std::size_t>(Lane::compute);
  Duration sum{};
  for (const Section& section : schedule.sections) {
    std::array<Duration, n_lanes> lanes{};
    Duration issue{};
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Op& op = schedule.ops[i];
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
    sum += section.repeat * *std::ranges::max_element(lanes);
  }
  return sum;
}

}  // namespace xt
