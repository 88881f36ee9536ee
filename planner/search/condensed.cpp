#include "planner/search/condensed.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/ir/memory.h"
#include "planner/lower/engine.h"

namespace xt {
namespace {

// The two layers of a run that tell what those left out hold. At either end two layers are beyond
// the reach of what they do a layer ahead and behind, and so are they of each other.
constexpr std::size_t below = 2, above = 5;

// Layers of a run that stay. In lock-step it is one more at the end: while a layer runs backward,
// what the one before handed over to it ends, one micro-batch after the other.
std::size_t stays(const Strategy& strategy) {
  return above + (strategy.intra_layer_micro_batches > 1 ? 4 : 3);
}

// One count of bytes for each pool of the device, and one for the host.
constexpr std::size_t n_tracks = n_lanes + 1, host_track = n_lanes;
using Tracks = std::array<std::int64_t, n_tracks>;

std::size_t track(const Buffer& buffer) {
  return buffer.space == Space::host ? host_track : static_cast<std::size_t>(buffer.pool);
}

// The end of the run of equal layers that begins at `first`.
std::size_t run_end(const OpGraph& graph, const Strategy& strategy, std::size_t first) {
  const auto is_like_first = [&](std::size_t layer) {
    const auto crosses = [&](std::int64_t n) {
      return std::cmp_less(first, n) != std::cmp_less(layer, n);
    };
    return graph.layers[layer] == graph.layers[first] && !crosses(strategy.recompute_layers) &&
           !crosses(strategy.swap_layers);
  };
  std::size_t end = first + 1;
  while (end < graph.layers.size() && is_like_first(end)) ++end;
  return end;
}

// Bytes that come or go before an op is issued.
struct Change {
  std::uint32_t op = 0;
  std::uint8_t track = 0;
  std::uint8_t holder = 0;
  std::int64_t bytes = 0;
};

// What all buffers hold, and what those of the two layers beside each gap hold.
class Sweep {
 public:
  Sweep(const Schedule& schedule, const std::vector<LeftOut>& left_out)
      : schedule_(schedule),
        left_out_(left_out),
        changes_(schedule.ops.size() + 1),
        held_(2 * left_out.size()) {}

  void add(const Buffer& buffer, std::int64_t bytes, std::int16_t layer);
  StepMemory run() &&;

 private:
  void hold(const Buffer& buffer, std::int64_t bytes, std::size_t holder);
  bool outlasts_its_layer(const Buffer& buffer) const;
  void find_extra();

  const Schedule& schedule_;
  const std::vector<LeftOut>& left_out_;
  std::vector<Tracks> changes_;  // by op
  std::vector<Change> held_changes_;
  std::vector<Tracks> held_;  // by gap, below and above
  Tracks in_use_{}, extra_{};
  std::vector<std::size_t> used_;  // tracks that something is on
};

void Sweep::add(const Buffer& buffer, std::int64_t bytes, std::int16_t layer) {
  for (std::size_t gap = 0; layer >= 0 && gap < left_out_.size(); ++gap) {
    if (layer == left_out_[gap].below) hold(buffer, bytes, 2 * gap);
    if (layer == left_out_[gap].above) hold(buffer, bytes, 2 * gap + 1);
  }
  const std::size_t t = track(buffer);
  if (std::ranges::find(used_, t) == used_.end()) used_.push_back(t);
  if (buffer.kind == BufferKind::resident) {
    in_use_[t] += bytes;
    return;
  }
  changes_[at(buffer.first_op)][t] += bytes;
  changes_[at(buffer.last_op) + 1][t] -= bytes;
}

void Sweep::hold(const Buffer& buffer, std::int64_t bytes, std::size_t holder) {
  const std::size_t t = track(buffer);
  if (buffer.kind == BufferKind::resident) {
    held_[holder][t] += bytes;
    return;
  }
  if (!outlasts_its_layer(buffer)) return;
  const auto change = [&](std::size_t op, std::int64_t by) {
    held_changes_.push_back({static_cast<std::uint32_t>(op), static_cast<std::uint8_t>(t),
                             static_cast<std::uint8_t>(holder), by});
  };
  change(at(buffer.first_op), bytes);
  change(at(buffer.last_op) + 1, -bytes);
}

// Others are never there together with those of a layer some layers on. An update takes several
// turns over all layers.
bool Sweep::outlasts_its_layer(const Buffer& buffer) const {
  const Origin &first = schedule_.op(buffer.first_op).origin,
               &last = schedule_.op(buffer.last_op).origin;
  return first.layer != last.layer || first.phase != last.phase || first.phase == Phase::optimizer;
}

StepMemory Sweep::run() && {
  std::ranges::sort(held_changes_, {}, &Change::op);
  find_extra();
  Tracks peaks{};
  std::int64_t device_peak = 0;
  std::size_t next = 0;
  for (std::size_t op = 0; op + 1 < changes_.size(); ++op) {
    const std::size_t first = next;
    for (; next < held_changes_.size() && held_changes_[next].op == op; ++next)
      held_[held_changes_[next].holder][held_changes_[next].track] += held_changes_[next].bytes;
    if (next != first) find_extra();
    std::int64_t device = 0;
    for (const std::size_t t : used_) {
      in_use_[t] += changes_[op][t];
      const std::int64_t bytes = in_use_[t] + extra_[t];
      peaks[t] = std::max(peaks[t], bytes);
      if (t != host_track) device += bytes;
    }
    device_peak = std::max(device_peak, device);
  }
  return {Bytes(device_peak),
          Bytes(std::accumulate(peaks.begin(), peaks.begin() + n_lanes, std::int64_t{0})),
          Bytes(peaks[host_track])};
}

void Sweep::find_extra() {
  extra_ = {};
  for (std::size_t gap = 0; gap < left_out_.size(); ++gap)
    for (const std::size_t t : used_)
      extra_[t] += left_out_[gap].n * std::min(held_[2 * gap][t], held_[2 * gap + 1][t]);
}

}  // namespace

std::vector<std::int64_t> Condensed::copies() const {
  std::vector<std::int64_t> result(layers.size(), 1);
  for (const LeftOut& gap : left_out) result[static_cast<std::size_t>(gap.above)] += gap.n;
  return result;
}

bool is_condensable(const Strategy& strategy) {
  const bool sums_norms = strategy.tensor_parallel > 1 && strategy.tensor_sequence_parallel;
  const EngineRules& rules = *engine_named(strategy.engine);
  return strategy.optimizer == Optimizer::adamw && !sums_norms && strategy.pipeline_parallel == 1 &&
         !strategy.expert_parallel_overlap && !rules.reduces_at_end &&
         strategy.communication_overlap && !rules.adds_after_backward &&
         !rules.updates_all_at_once && (rules.reductions_in_flight == 0 || strategy.zero < 3);
}

Condensed condensed(const OpGraph& graph, const Strategy& strategy) {
  Condensed result{{}, strategy, {}};
  std::vector<std::uint16_t>& layers = result.layers;
  for (std::size_t first = 0; first < graph.layers.size();) {
    const std::size_t end = run_end(graph, strategy, first);
    const std::size_t kept = std::min(end - first, stays(strategy));
    const auto n = static_cast<std::int64_t>(end - first - kept);
    if (n > 0)
      result.left_out.push_back({static_cast<std::int16_t>(layers.size() + below),
                                 static_cast<std::int16_t>(layers.size() + above), n});
    if (std::cmp_less(first, strategy.recompute_layers)) result.strategy.recompute_layers -= n;
    if (std::cmp_less(first, strategy.swap_layers)) result.strategy.swap_layers -= n;
    layers.insert(layers.end(), kept, graph.layers[first]);
    first = end;
  }
  return result;
}

StepMemory step_memory(const Schedule& schedule, const Bindings& bindings,
                       const std::vector<LeftOut>& left_out) {
  Sweep sweep(schedule, left_out);
  std::size_t n_flats = 0;
  std::int16_t layer_of_flat = -1;
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.kind == BufferKind::view) continue;
    if (n_flats < schedule.flats.size() && at(schedule.flats[n_flats].parameter) == i)
      layer_of_flat = schedule.flats[n_flats++].layer;
    const bool is_resident = buffer.kind == BufferKind::resident;
    sweep.add(buffer, buffer.bytes(bindings).value,
              is_resident ? layer_of_flat : schedule.op(buffer.first_op).origin.layer);
  }
  StepMemory memory = std::move(sweep).run();
  if (schedule.held_back.empty()) return memory;
  XT_CHECK(left_out.empty(), schedule.engine);
  memory.pooled = pooled_peak(schedule, bindings, Space::device);
  return memory;
}

}  // namespace xt
