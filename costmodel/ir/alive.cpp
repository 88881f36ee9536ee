#include "costmodel/ir/alive.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace xt {
namespace {

// The op that brings each buffer into being; of resident ones, the first that touches them, and of
// moments that of their parameters, as an update names the unit instead of its layer.
std::vector<OpId> makers(const Schedule& schedule) {
  std::vector<OpId> result(schedule.buffers.size(), no_op);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = schedule.buffers[i].first_op;
  for (std::uint32_t i = 0; i < schedule.ops.size(); ++i)
    for (const BufferId id : schedule.operands_of(schedule.ops[i])) {
      OpId& maker = result[at(storage(schedule, id))];
      if (maker == no_op) maker = OpId{i};
    }
  for (const Flat& flat : schedule.flats)
    for (const BufferId moment : {flat.exp_avg, flat.exp_avg_sq})
      if (moment != no_buffer) result[at(moment)] = result[at(flat.parameter)];
  return result;
}

// Micro-batches in lock-step share a group, chunks of the loss do not.
Origin group_of(Origin origin) {
  if (origin.layer >= 0) origin.chunk = -1;
  origin.layer = origin.layer >= 0 ? std::int16_t{0} : std::int16_t{-1};
  return origin;
}

// Copies of buffers beside the one that the schedule has, of micro-batches that it does not show:
// as many as the section that makes a buffer has run more often than the one that ends it, without
// that which stands in the schedule itself. Sections that differ for the first or the last
// micro-batch may end what the others' have made, so that one copy counts below zero.
std::int64_t copies_beside(const Schedule& schedule, const Buffer& buffer, std::size_t section,
                           std::span<const std::int32_t> runs) {
  if (buffer.kind != BufferKind::transient) return 0;
  const std::size_t first = section_with(schedule, buffer.first_op),
                    last = section_with(schedule, buffer.last_op);
  if (first == last) return 0;
  return runs[first] - runs[last] - (first < section && section <= last ? 1 : 0);
}

template <typename CopiesOf>
std::vector<Holders> grouped(const Schedule& schedule, const Bindings& bindings, Space space,
                             OpId op, const CopiesOf& copies_of) {
  const std::vector<OpId> made_by = makers(schedule);
  std::map<std::tuple<MemoryCategory, BufferKind, Origin, Kernel>, Holders> groups;
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const std::int64_t copies = buffer.space == space ? copies_of(buffer) : 0;
    if (copies == 0) continue;
    const OpId id = made_by[i] == no_op ? op : made_by[i];
    const Op& maker = schedule.op(id);
    const Kernel kernel = schedule.work(maker).kernel;
    const Origin origin = group_of(maker.origin);
    Holders& of = groups[{buffer.category, buffer.kind, origin, kernel}];
    of.category = buffer.category;
    of.kind = buffer.kind;
    of.origin = origin;
    of.kernel = kernel;
    if (maker.origin.layer >= 0) of.layers.push_back(maker.origin.layer);
    of.n_buffers += copies;
    of.bytes += Bytes(copies * buffer.bytes(bindings).value);
  }
  std::vector<Holders> result;
  for (auto& [key, of] : groups) {
    if (of.n_buffers == 0) continue;
    std::ranges::sort(of.layers);
    of.layers.erase(std::unique(of.layers.begin(), of.layers.end()), of.layers.end());
    result.push_back(std::move(of));
  }
  std::ranges::stable_sort(result, std::ranges::greater(), &Holders::bytes);
  return result;
}

}  // namespace

std::vector<Holders> holders_at(const Schedule& schedule, const Bindings& bindings, Space space,
                                OpId op) {
  return grouped(schedule, bindings, space, op,
                 [&](const Buffer& buffer) { return is_alive(buffer, op) ? 1 : 0; });
}

std::vector<Holders> holders_at(const Schedule& schedule, const Bindings& bindings, Space space,
                                OpId op, std::span<const std::int32_t> runs) {
  const std::size_t section = section_with(schedule, op);
  return grouped(schedule, bindings, space, op, [&](const Buffer& buffer) {
    return (is_alive(buffer, op) ? 1 : 0) + copies_beside(schedule, buffer, section, runs);
  });
}

std::string holder_name(const Schedule& schedule, const Holders& of) {
  std::string_view how = "made by";
  if (of.kind == BufferKind::resident) how = "always there, for";
  if (of.kind == BufferKind::workspace) how = "temporaries of";
  std::string text =
      fmt::format("{} {}", how, phase_names[static_cast<std::size_t>(of.origin.phase)]);
  if (of.origin.chunk >= 0) text += fmt::format(" chunk {}", of.origin.chunk);
  return fmt::format("{} {} {}", text, schedule.parts[of.origin.part], name(of.kernel));
}

std::string layer_ranges(const std::vector<std::int16_t>& layers) {
  std::string text;
  for (std::size_t begin = 0; begin < layers.size();) {
    std::size_t end = begin + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end - begin == 1 ? std::to_string(layers[begin])
                             : fmt::format("{}-{}", layers[begin], layers[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace xt
