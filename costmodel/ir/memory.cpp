#include "costmodel/ir/memory.h"

#include <algorithm>

namespace xt {
namespace {

bool takes_memory(const Buffer& buffer, Space space) {
  return buffer.kind != BufferKind::view && buffer.space == space;
}

bool is_alive(const Buffer& buffer, OpId op) {
  if (buffer.kind == BufferKind::resident) return true;
  return at(buffer.first_op) <= at(op) && at(op) <= at(buffer.last_op);
}

}  // namespace

MemoryPeak memory_at(const Schedule& schedule, const Bindings& bindings, Space space, OpId op) {
  MemoryPeak peak;
  peak.op = op;
  for (const Buffer& buffer : schedule.buffers) {
    if (!takes_memory(buffer, space) || !is_alive(buffer, op)) continue;
    const Bytes bytes = buffer.bytes(bindings);
    peak.peak += bytes;
    peak.by_category[static_cast<std::size_t>(buffer.category)] += bytes;
  }
  return peak;
}

std::vector<Bytes> memory_curve(const Schedule& schedule, const Bindings& bindings, Space space) {
  std::vector<Bytes> change(schedule.ops.size() + 1);
  Bytes resident;
  for (const Buffer& buffer : schedule.buffers) {
    if (!takes_memory(buffer, space)) continue;
    const Bytes bytes = buffer.bytes(bindings);
    if (buffer.kind == BufferKind::resident) {
      resident += bytes;
      continue;
    }
    change[at(buffer.first_op)] += bytes;
    change[at(buffer.last_op) + 1] -= bytes;
  }
  change.pop_back();
  for (Bytes& bytes : change) {
    resident += bytes;
    bytes = resident;
  }
  return change;
}

MemoryPeak memory_peak(const Schedule& schedule, const Bindings& bindings, Space space) {
  const std::vector<Bytes> curve = memory_curve(schedule, bindings, space);
  const auto highest = std::max_element(curve.begin(), curve.end());
  if (highest == curve.end()) return {};
  return memory_at(schedule, bindings, space,
                   OpId(static_cast<std::uint32_t>(highest - curve.begin())));
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
