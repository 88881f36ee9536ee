#include "planner/plan/device_memory.h"

#include <algorithm>

namespace xt {
namespace {

Bytes value_of(const std::optional<Sourced<Bytes>>& bytes) {
  return bytes ? bytes->value : Bytes(0);
}

// Of an exchange between each pair of `ranks`; profiles say it of eight, and of more we take as
// much.
Bytes memory_of_pairs(const Profile& profile, std::int64_t ranks) {
  constexpr std::int64_t peers_of_eight = 7;
  const Bytes of_eight = value_of(profile.all_to_all_memory);
  return Bytes(of_eight.value * std::min(ranks - 1, peers_of_eight) / peers_of_eight);
}

Bytes memory_of(const Profile& profile, const std::vector<CommunicatorUse>& all) {
  Bytes sum;
  for (const CommunicatorUse& one : all) {
    sum += value_of(profile.communicator_memory);
    if (one.exchanges) sum += memory_of_pairs(profile, one.group.size);
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
