#pragma once

// How long a collective takes on a machine: which measured group is nearest to the one asked for.

#include <array>
#include <cstdint>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/schedule.h"

namespace xt {

/// How far apart the ranks of `group` lie on this machine.
Scope scope(const Profile& profile, const GroupShape& group);

/// The ranks of `group` that share a node with one another.
std::int64_t ranks_in_a_node(const Profile& profile, const GroupShape& group);

/// Whether the profile says anything of collectives over `group`.
bool covers(const Profile& profile, const GroupShape& group);

/// The points that the time of `kernel` over `group` lies between: of the widest scope not wider
/// than the group's, the most ranks not above its size and the fewest not below. Twice the same at
/// an end.
///
/// Assumes: the profile has a curve for the collective
std::array<const CollectiveEfficiency*, 2> collective_points(const Profile& profile, Kernel kernel,
                                                             const GroupShape& group);

/// Whether the links between nodes, rather than measured points, decide the rate of `kernel`.
bool is_bound_by_links(const Profile& profile, Kernel kernel, const GroupShape& group,
                       double bytes);

/// Seconds of a collective of `bytes` over `group`: what it waits and what it moves.
struct CollectiveTime {
  Seconds latency;
  Seconds moving;        ///< bus bytes / bus bandwidth
  double bus_bytes = 0;  ///< on the busiest link
};

/// The time of `kernel` over `group`, between the measured group sizes of its scope by log ranks.
///
/// A scope without points takes those of the widest narrower one. Between nodes a ring is at most
/// as fast as the scale-out links of all its ranks in a node together, an exchange without points
/// of its own as one of them. Assumes: covers(profile, group) Source:  NCCL, src/graph, rings over
/// nodes: every byte enters and leaves a node once
CollectiveTime collective_time(const Profile& profile, Kernel kernel, const GroupShape& group,
                               double bytes);

}  // namespace xt
