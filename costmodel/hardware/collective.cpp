#include "costmodel/hardware/collective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

// One curve covers exchanges of rows, of heads, of the few counts, and with one other rank. A
// machine without points for broadcasts sends them as it gathers.
Kernel curve_of(const Profile& profile, Kernel kernel) {
  if (kernel == Kernel::broadcast &&
      std::ranges::find(profile.collectives, kernel, &CollectiveEfficiency::kernel) ==
          profile.collectives.end())
    return Kernel::all_gather;
  const bool exchanges = kernel == Kernel::exchange_counts || kernel == Kernel::exchange_heads ||
                         kernel == Kernel::send_receive;
  return exchanges ? Kernel::all_to_all : kernel;
}

// Bytes on the busiest link over bytes of the message, as nccl-tests defines bus bandwidth.
double bus_factor(Kernel kernel, double ranks) {
  if (kernel == Kernel::send_receive || kernel == Kernel::broadcast) return 1;
  return (kernel == Kernel::all_reduce ? 2.0 : 1.0) * (ranks - 1) / ranks;
}

struct Neighbours {
  const CollectiveEfficiency* fewer = nullptr;  // the most ranks not above those asked for
  const CollectiveEfficiency* more = nullptr;   // the fewest ranks not below
};

Neighbours neighbours(const Profile& profile, Kernel kernel, Scope scope, std::int64_t ranks) {
  Neighbours found;
  for (const CollectiveEfficiency& candidate : profile.collectives) {
    if (candidate.kernel != kernel || candidate.scope != scope) continue;
    if (candidate.ranks <= ranks && (!found.fewer || candidate.ranks > found.fewer->ranks))
      found.fewer = &candidate;
    if (candidate.ranks >= ranks && (!found.more || candidate.ranks < found.more->ranks))
      found.more = &candidate;
  }
  if (!found.fewer) found.fewer = found.more;
  if (!found.more) found.more = found.fewer;
  return found;
}

// Between two group sizes by the logarithm of the ranks; alone beyond the ends.
double share_of_more(const Neighbours& found, std::int64_t ranks) {
  if (found.fewer->ranks == found.more->ranks) return 0;
  const auto log_ranks = [](std::int64_t n) { return std::log2(static_cast<double>(n)); };
  return (log_ranks(ranks) - log_ranks(found.fewer->ranks)) /
         (log_ranks(found.more->ranks) - log_ranks(found.fewer->ranks));
}

// The widest scope with points that is not wider than `wanted`; else the narrowest there is.
std::optional<Scope> scope_with_points(const Profile& profile, Kernel kernel, Scope wanted) {
  std::optional<Scope> best;
  for (const CollectiveEfficiency& candidate : profile.collectives) {
    if (candidate.kernel != kernel) continue;
    const bool fits = candidate.scope <= wanted;
    if (!best || (fits && (*best > wanted || candidate.scope > *best)) ||
        (!fits && *best > wanted && candidate.scope < *best))
      best = candidate.scope;
  }
  return best;
}

// A ring leaves a node over the links of all its ranks there; rows of an exchange each over the
// link of their own rank, unless measured points already say what comes of it.
double network_limit(const Profile& profile, Kernel kernel, const GroupShape& group, Scope known) {
  const double link = profile.scale_out->value.value;
  if (kernel != Kernel::all_to_all)
    return link * static_cast<double>(ranks_in_a_node(profile, group));
  return known == Scope::network ? std::numeric_limits<double>::infinity() : link;
}

}  // namespace

Scope scope(const Profile& profile, const GroupShape& group) {
  const std::int64_t span = std::int64_t{group.size - 1} * group.stride + 1;
  if (span <= profile.ranks_per_device) return Scope::device;
  if (span <= profile.ranks_per_node()) return Scope::node;
  if (span <= profile.scale_up.domain_ranks) return Scope::domain;
  return Scope::network;
}

std::int64_t ranks_in_a_node(const Profile& profile, const GroupShape& group) {
  const std::int64_t in_a_node = std::max<std::int64_t>(1, profile.ranks_per_node() / group.stride);
  return std::min<std::int64_t>(group.size, in_a_node);
}

bool covers(const Profile& profile, const GroupShape& group) {
  return group.size == 1 || scope(profile, group) != Scope::network ||
         profile.scale_out.has_value();
}

std::array<const CollectiveEfficiency*, 2> collective_points(const Profile& profile, Kernel kernel,
                                                             const GroupShape& group) {
  const Kernel measured_kernel = curve_of(profile, kernel);
  const auto known = scope_with_points(profile, measured_kernel, scope(profile, group));
  XT_CHECK(known, name(measured_kernel), profile.name);
  const Neighbours found = neighbours(profile, measured_kernel, *known, group.size);
  return {found.fewer, found.more};
}

namespace {

// Between the points, whatever the links between nodes carry.
double measured_rate(const Profile& profile, Kernel kernel, const GroupShape& group, double bytes) {
  const auto [fewer, more] = collective_points(profile, kernel, group);
  return std::lerp(fewer->rate.at(bytes).value, more->rate.at(bytes).value,
                   share_of_more({fewer, more}, group.size));
}

// What the links between nodes carry at most; infinite where the group uses none.
double link_rate(const Profile& profile, Kernel kernel, const GroupShape& group) {
  if (scope(profile, group) != Scope::network) return std::numeric_limits<double>::infinity();
  XT_CHECK(profile.scale_out, profile.name);
  const auto [fewer, more] = collective_points(profile, kernel, group);
  return network_limit(profile, curve_of(profile, kernel), group, fewer->scope);
}

}  // namespace

bool is_bound_by_links(const Profile& profile, Kernel kernel, const GroupShape& group,
                       double bytes) {
  return link_rate(profile, kernel, group) < measured_rate(profile, kernel, group, bytes);
}

CollectiveTime collective_time(const Profile& profile, Kernel kernel, const GroupShape& group,
                               double bytes) {
  const auto [fewer, more] = collective_points(profile, kernel, group);
  const double rate =
      std::min(measured_rate(profile, kernel, group, bytes), link_rate(profile, kernel, group));
  const double latency = std::lerp(fewer->rate.latency.value, more->rate.latency.value,
                                   share_of_more({fewer, more}, group.size));
  const double bus_bytes = bytes * bus_factor(kernel, group.size);
  return {Seconds(latency), Seconds(bus_bytes / rate), bus_bytes};
}

}  // namespace xt
