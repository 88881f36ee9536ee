// Exchanges in which a node gets a token once, however many of its ranks have experts of it.
//
// Source: DeepEP (deepseek-ai/DeepEP), csrc/kernels/internode.cu, and Hybrid-EP_Implementation.md

#include <cmath>

#include "costmodel/cost/classes.h"
#include "costmodel/hardware/collective.h"

namespace xt {
namespace {

// Positions in the row of all_to_all.
constexpr std::size_t copies = 0, row_width = 2, tokens = 3, experts_each = 4;

double nodes(const Pricing& pricing) {
  return static_cast<double>(pricing.group.size) /
         static_cast<double>(ranks_in_a_node(pricing.profile, pricing.group));
}

}  // namespace

bool sends_once_per_node(const Work& work, const GroupShape& group, const Profile& profile) {
  return work.kernel == Kernel::all_to_all && work.extents[experts_each] != Extent{} &&
         scope(profile, group) == Scope::network;
}

GroupShape in_a_node(const GroupShape& group, const Profile& profile) {
  GroupShape shape = group;
  shape.size = static_cast<decltype(shape.size)>(ranks_in_a_node(profile, group));
  return shape;
}

double bytes_to_other_nodes(const Pricing& pricing) {
  const double n = nodes(pricing);
  const double visited = (n - 1) * (1 - std::pow(1 - 1 / n, pricing.extent(experts_each)));
  return pricing.extent(tokens) * visited * pricing.extent(row_width) * pricing.width();
}

Demand token_exchange_demand(const Pricing& pricing) {
  const GroupShape& group = pricing.group;
  const GroupShape near = in_a_node(group, pricing.profile);
  // Of the rows of a plain exchange as many go to other nodes as other nodes have ranks.
  const double far_share = 1 - 1 / nodes(pricing);
  const CollectiveTime far = collective_time(pricing.profile, Kernel::all_to_all, group,
                                             bytes_to_other_nodes(pricing) / far_share);
  Demand demand;
  demand.latency = far.latency;
  demand.on(Resource::scale_out) = far.moving;
  if (near.size == 1) return demand;
  const double arriving = pricing.extent(copies) * pricing.extent(row_width) * pricing.width();
  demand.on(Resource::scale_up) =
      collective_time(pricing.profile, Kernel::all_to_all, near, arriving).moving;
  return demand;
}

}  // namespace xt
