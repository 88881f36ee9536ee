#include "planner/plan/automatic.h"

#include <algorithm>

#include "costmodel/ir/memory.h"
#include "planner/lower/lower.h"
#include "planner/plan/device_memory.h"

namespace xt {
namespace {

constexpr std::int64_t smallest_chunk = 256;

MemoryPeak peak_with(const OpGraph& graph, const Strategy& strategy) {
  const Schedule schedule = lower(graph, strategy);
  return memory_peak(schedule, assumed_bindings(schedule), Space::device);
}

bool loss_sets_peak(const OpGraph& graph, const Strategy& strategy) {
  const Schedule schedule = lower(graph, strategy);
  const MemoryPeak peak = memory_peak(schedule, assumed_bindings(schedule), Space::device);
  return schedule.op(peak.op).origin.phase == Phase::loss;
}

std::int64_t automatic_chunk(const OpGraph& graph, Strategy strategy) {
  const std::vector<std::int64_t> candidates = loss_chunks(strategy.loss_tokens());
  const auto first_too_long =
      std::partition_point(candidates.begin(), candidates.end(), [&](std::int64_t chunk) {
        strategy.loss_chunk = chunk;
        return !loss_sets_peak(graph, strategy);
      });
  if (first_too_long != candidates.begin()) return *(first_too_long - 1);
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](std::int64_t a, std::int64_t b) {
                             Strategy with_a = strategy, with_b = strategy;
                             with_a.loss_chunk = a;
                             with_b.loss_chunk = b;
                             return peak_with(graph, with_a).peak < peak_with(graph, with_b).peak;
                           });
}

bool fits(const OpGraph& graph, const Strategy& strategy, const Profile& profile) {
  const Schedule schedule = lower(graph, strategy);
  const Bindings bindings = assumed_bindings(schedule);
  const Bytes peak = memory_peak(schedule, bindings, Space::device).peak;
  const Bytes pooled = pooled_peak(schedule, bindings, Space::device);
  return device_memory(profile, schedule, peak, pooled).fit() != Fit::does_not_fit;
}

std::int64_t automatic_swap(const OpGraph& graph, Strategy strategy, const Profile& profile) {
  std::int64_t too_few = -1, enough = strategy.recompute_layers;
  while (enough - too_few > 1) {
    strategy.swap_layers = (too_few + enough) / 2;
    if (fits(graph, strategy, profile)) {
      enough = strategy.swap_layers;
    } else {
      too_few = strategy.swap_layers;
    }
  }
  return enough;
}

}  // namespace

std::vector<std::int64_t> loss_chunks(std::int64_t tokens) {
  std::vector<std::int64_t> result;
  for (std::int64_t chunk = smallest_chunk; chunk < tokens; chunk *= 2) result.push_back(chunk);
  if (result.empty() || result.back() * 2 == tokens) result.push_back(tokens);
  return result;
}

void choose_automatic(Strategy& strategy, const OpGraph& graph, const Profile& profile,
                      LeftToPlanner left) {
  // The chunk is chosen beside the most swapping, so that swapping can only help the loss.
  if (left.swap) strategy.swap_layers = strategy.recompute_layers;
  if (left.chunk) strategy.loss_chunk = automatic_chunk(graph, strategy);
  if (left.swap) strategy.swap_layers = automatic_swap(graph, strategy, profile);
}

}  // namespace xt
