#include "planner/plan/device_memory.h"

#include <algorithm>
#include <array>
#include <utility>

namespace xt {
namespace {

Bytes value_of(const std::optional<Sourced<Bytes>>& bytes) {
  return bytes ? bytes->value : Bytes(0);
}

// Ranks of `group` in one domain of the fast network.
std::int64_t ranks_inside(const Profile& profile, const GroupShape& group) {
  const std::int64_t domain = std::max(profile.ranks_per_node(), profile.scale_up.domain_ranks);
  return std::clamp<std::int64_t>(domain / group.stride, 1, group.size);
}

// Of an exchange between each pair of a group's ranks; profiles say it of eight in a domain, and of
// more we take as much. Between nodes a pair has as many channels as the network needs, so that
// those inside a node have no more, and all that is sent over the network lies in one pool.
//
// Source: NCCL, src/graph/paths.cc, ncclTopoComputeP2pChannelsPerPeer; src/transport/net.cc,
// sharedNetBuffersInit
Bytes memory_of_pairs(const Profile& profile, const GroupShape& group) {
  constexpr std::int64_t peers_of_eight = 7;
  const Bytes of_eight = value_of(profile.all_to_all_memory);
  const std::int64_t peers = ranks_inside(profile, group) - 1;
  const bool is_inside = peers + 1 == group.size;
  if (!is_inside && profile.all_to_all_memory_over_nodes)
    return profile.all_to_all_memory_over_nodes->value;
  const std::int64_t connected = is_inside ? peers : group.size - 1;
  return Bytes(of_eight.value * std::min(connected, peers_of_eight) / peers_of_eight);
}

// Buffers of a library that sends rows of `row_bytes` once per rank: for each channel and rank of a
// node rows in flight with room for all that belongs to them; between nodes as much again, to send
// from and to receive in, for each node.
//
// Source: DeepEP 1.2, csrc/config.hpp, get_nvl_buffer_size_hint and get_rdma_buffer_size_hint;
// deep_ep/buffer.py, num_sms, get_dispatch_config and get_combine_config
Bytes memory_of_copies(std::int64_t ranks, std::int64_t row_bytes) {
  constexpr std::int64_t channels = 10, ranks_of_node = 8, rows_between_nodes = 128;
  constexpr std::int64_t of_row = 128 * (8 + 4 + 4) + 8;  // experts, weights, scales and origin
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 4> rows_of_ranks = {
      {{8, 256}, {64, 288}, {128, 560}, {160, 720}}};
  std::int64_t rows = rows_of_ranks.back().second;
  for (const auto& [most, of_so_many] : rows_of_ranks)
    if (ranks <= most) rows = std::min(rows, of_so_many);
  const std::int64_t bytes = channels * (row_bytes + of_row);
  const std::int64_t nodes = ranks / ranks_of_node;
  const std::int64_t inside = bytes * std::min(ranks, ranks_of_node) * rows;
  return Bytes(inside + (nodes > 1 ? 2 * bytes * nodes * rows_between_nodes : 0));
}

Bytes memory_of(const Profile& profile, const std::vector<CommunicatorUse>& all) {
  Bytes sum;
  for (const CommunicatorUse& one : all) {
    sum += value_of(profile.communicator_memory);
    if (one.exchanges) sum += memory_of_pairs(profile, one.group);
    if (one.copied_row_bytes > 0) sum += memory_of_copies(one.group.size, one.copied_row_bytes);
  }
  return sum;
}

// What pools hold idle they give back before an allocation fails.
Bytes given_back(Bytes held, Bytes needed, Bytes room) {
  return std::min(held, std::max(needed, room));
}

}  // namespace

DeviceMemory device_memory(const Profile& profile, const Schedule& schedule, Bytes allocated,
                           Bytes pooled, std::int64_t further_communicators) {
  const double p50 = profile.reserved_over_allocated.value;
  const double p95 =
      profile.reserved_over_allocated_p95 ? profile.reserved_over_allocated_p95->value : p50;
  const std::vector<CommunicatorUse> all = communicators(schedule);
  DeviceMemory result;
  result.allocated = allocated;
  result.reserved_p95 = scaled(pooled, p95, Round::up);
  result.n_communicators = static_cast<std::int64_t>(all.size()) + further_communicators;
  result.communicators = memory_of(profile, all) +
                         Bytes(value_of(profile.communicator_memory).value * further_communicators);
  result.context = value_of(profile.device_context);
  result.memory = profile.memory.value;
  result.reserved_p50 =
      given_back(scaled(pooled, p50, Round::up), scaled(allocated, p50, Round::up),
                 result.memory - std::min(result.memory, result.beside()));
  return result;
}

}  // namespace xt
