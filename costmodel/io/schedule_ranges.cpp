#include "costmodel/io/schedule_ranges.h"

#include <algorithm>
#include <utility>

namespace xt {
namespace {

/// More than any device has; a thousand buffers of it can still be added up.
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

bool has_extents(const Schedule& schedule, std::span<const Extent> extents) {
  return std::ranges::all_of(extents, [&](Extent extent) {
    return !extent.is_symbol() || at(extent.symbol()) < schedule.symbols.size();
  });
}

bool has_works(const Schedule& schedule) {
  return std::ranges::all_of(schedule.works,
                             [&](const Work& work) { return has_extents(schedule, work.extents); });
}

bool has_buffers(const Schedule& schedule) {
  const auto is_op = [&](OpId id) { return at(id) < schedule.ops.size(); };
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const bool lives = buffer.kind == BufferKind::transient || buffer.kind == BufferKind::workspace;
    if (!has_extents(schedule, buffer.shape)) return false;
    if (buffer.kind == BufferKind::view && at(buffer.parent) >= i) return false;
    if (lives && !(is_op(buffer.first_op) && is_op(buffer.last_op))) return false;
  }
  return true;
}

bool has_held_back(const Schedule& schedule) {
  return std::ranges::all_of(schedule.held_back, [&](const HeldBack& of) {
    return at(of.buffer) < schedule.buffers.size() && at(of.until) < schedule.ops.size() &&
           schedule.buffer(of.buffer).kind == BufferKind::transient;
  });
}

bool has_ops(const Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    if (at(op.work) >= schedule.works.size() || op.origin.part >= schedule.parts.size())
      return false;
    if (std::ranges::any_of(schedule.dependencies_of(op), [&](OpId id) { return at(id) >= i; }))
      return false;
  }
  return std::ranges::all_of(schedule.sections, [&](const Section& section) {
    return section.begin <= section.end && at(section.end) <= schedule.ops.size();
  });
}

bool has_parameters(const Schedule& schedule) {
  const auto is_buffer = [&](BufferId id) { return at(id) < schedule.buffers.size(); };
  for (const Placement& placement : schedule.placements)
    if (placement.flat < 0 || std::cmp_greater_equal(placement.flat, schedule.flats.size()))
      return false;
  return std::ranges::all_of(schedule.flats, [&](const Flat& flat) {
    const bool has_moments = flat.exp_avg != no_buffer;
    return is_buffer(flat.parameter) &&
           (!has_moments || (is_buffer(flat.exp_avg) && is_buffer(flat.exp_avg_sq)));
  });
}

/// The bytes that `extents` of `unit` bytes take, or more than there can be.
std::int64_t bytes_of(std::span<const Extent> extents, const Bindings& bindings,
                      std::int64_t unit) {
  std::int64_t bytes = unit;
  for (const Extent extent : extents)
    if (__builtin_mul_overflow(bytes, extent.value(bindings), &bytes)) return most_bytes;
  return bytes;
}

bool has_sane_sizes(const Schedule& schedule) {
  const Bindings bindings = assumed_bindings(schedule);
  const auto is_sane = [](std::int64_t bytes) { return bytes >= 0 && bytes < most_bytes; };
  return std::ranges::all_of(schedule.buffers, [&](const Buffer& buffer) {
    return is_sane(bytes_of(buffer.shape, bindings, width(buffer.dtype))) &&
           is_sane(buffer.offset_bytes);
  });
}

}  // namespace

bool is_closed(const Schedule& schedule) {
  const auto are_buffers = [&](std::span<const BufferId> ids) {
    return std::ranges::all_of(ids, [&](BufferId id) { return at(id) < schedule.buffers.size(); });
  };
  const BatchBuffers& batch = schedule.batch;
  for (const BufferId id : {batch.tokens, batch.labels, batch.positions, batch.boundaries,
                            batch.valid_tokens, batch.loss, batch.grad_norm, batch.balance_loss})
    if (id != no_buffer && at(id) >= schedule.buffers.size()) return false;
  return has_works(schedule) && has_buffers(schedule) && has_ops(schedule) &&
         has_parameters(schedule) && has_held_back(schedule) && are_buffers(schedule.operands) &&
         are_buffers(schedule.ended);
}

bool has_sane_numbers(const Schedule& schedule) {
  const auto is_group = [&](const GroupShape& group) { return group.size > 0 && group.stride > 0; };
  const auto is_symbol = [](const Symbol& symbol) {
    return symbol.parts > 0 && symbol.micro_batch >= 0 && symbol.assumed >= 0;
  };
  return schedule.ranks > 0 && std::ranges::all_of(schedule.groups, is_group) &&
         std::ranges::all_of(schedule.symbols, is_symbol) &&
         std::ranges::all_of(schedule.sections,
                             [](const Section& section) { return section.repeat > 0; }) &&
         has_sane_sizes(schedule);
}

}  // namespace xt
