#include "costmodel/ir/memory.h"

#include <algorithm>
#include <numeric>

namespace xt {
namespace {

/// Bytes per Space.
using SpaceBytes = std::array<Bytes, space_names.size()>;

constexpr std::size_t index(Space space) { return static_cast<std::size_t>(space); }

void add(MemoryPeak& peak, const Buffer& buffer, const Bindings& bindings) {
  const Bytes bytes = buffer.bytes(bindings);
  peak.peak += bytes;
  peak.by_category[static_cast<std::size_t>(buffer.category)] += bytes;
}

// The memory curves of all spaces at once.
std::vector<SpaceBytes> memory_curves(const Schedule& schedule, const Bindings& bindings) {
  std::vector<SpaceBytes> curves(schedule.ops.size() + 1);
  SpaceBytes in_use{};
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind == BufferKind::view) continue;
    const Bytes bytes = buffer.bytes(bindings);
    const std::size_t space = index(buffer.space);
    if (buffer.kind == BufferKind::resident) {
      in_use[space] += bytes;
      continue;
    }
    curves[at(buffer.first_op)][space] += bytes;
    curves[at(buffer.last_op) + 1][space] -= bytes;
  }
  curves.pop_back();
  for (SpaceBytes& change : curves) {
    for (std::size_t space = 0; space < in_use.size(); ++space) in_use[space] += change[space];
    change = in_use;
  }
  return curves;
}

}  // namespace

bool is_alive(const Buffer& buffer, OpId op) {
  if (buffer.kind == BufferKind::view) return false;
  if (buffer.kind == BufferKind::resident) return true;
  return at(buffer.first_op) <= at(op) && at(op) <= at(buffer.last_op);
}

std::vector<Bytes> memory_curve(const Schedule& schedule, const Bindings& bindings, Space space) {
  std::vector<Bytes> curve;
  curve.reserve(schedule.ops.size());
  for (const SpaceBytes& bytes : memory_curves(schedule, bindings))
    curve.push_back(bytes[index(space)]);
  return curve;
}

MemoryPeak memory_at(const Schedule& schedule, const Bindings& bindings, Space space, OpId op) {
  MemoryPeak peak;
  peak.op = op;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.space == space && is_alive(buffer, op)) add(peak, buffer, bindings);
  return peak;
}

std::array<MemoryPeak, space_names.size()> memory_peaks(const Schedule& schedule,
                                                        const Bindings& bindings) {
  const std::vector<SpaceBytes> curves = memory_curves(schedule, bindings);
  std::array<MemoryPeak, space_names.size()> peaks;
  if (curves.empty()) return peaks;
  for (std::size_t space = 0; space < peaks.size(); ++space) {
    std::size_t highest = 0;
    for (std::size_t i = 1; i < curves.size(); ++i)
      if (curves[i][space] > curves[highest][space]) highest = i;
    peaks[space].op = OpId(static_cast<std::uint32_t>(highest));
  }
  for (const Buffer& buffer : schedule.buffers) {
    MemoryPeak& peak = peaks[index(buffer.space)];
    if (is_alive(buffer, peak.op)) add(peak, buffer, bindings);
  }
  return peaks;
}

MemoryPeak memory_peak(const Schedule& schedule, const Bindings& bindings, Space space) {
  return memory_peaks(schedule, bindings)[index(space)];
}

Bytes pooled_peak(const Schedule& schedule, const Bindings& bindings, Space space) {
  using PoolBytes = std::array<Bytes, n_lanes>;
  std::vector<PoolBytes> changes(schedule.ops.size() + 1);
  PoolBytes in_use{};
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind == BufferKind::view || buffer.space != space) continue;
    const Bytes bytes = buffer.bytes(bindings);
    const auto pool = static_cast<std::size_t>(buffer.pool);
    if (buffer.kind == BufferKind::resident) {
      in_use[pool] += bytes;
      continue;
    }
    changes[at(buffer.first_op)][pool] += bytes;
    changes[at(buffer.last_op) + 1][pool] -= bytes;
  }
  for (const HeldBack& of : schedule.held_back) {
    const Buffer& buffer = schedule.buffer(of.buffer);
    if (buffer.space != space || of.until <= buffer.last_op) continue;
    const Bytes bytes = buffer.bytes(bindings);
    const auto pool = static_cast<std::size_t>(buffer.pool);
    changes[at(buffer.last_op) + 1][pool] += bytes;
    changes[at(of.until) + 1][pool] -= bytes;
  }
  PoolBytes peaks = in_use;
  for (const PoolBytes& change : changes)
    for (std::size_t pool = 0; pool < n_lanes; ++pool) {
      in_use[pool] += change[pool];
      peaks[pool] = std::max(peaks[pool], in_use[pool]);
    }
  return std::accumulate(peaks.begin(), peaks.end(), Bytes());
}

MemoryPeak memory_peak_in(const Schedule& schedule, const Bindings& bindings, Space space,
                          Phase phase) {
  const std::vector<Bytes> curve = memory_curve(schedule, bindings, space);
  OpId highest = no_op;
  for (std::uint32_t i = 0; i < curve.size(); ++i) {
    if (schedule.ops[i].origin.phase != phase) continue;
    if (highest == no_op || curve[i] > curve[at(highest)]) highest = OpId{i};
  }
  return highest == no_op ? MemoryPeak{} : memory_at(schedule, bindings, space, highest);
}

}  // namespace xt
