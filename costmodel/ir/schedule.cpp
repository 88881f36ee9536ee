#include "costmodel/ir/schedule.h"

#include <fmt/format.h>

namespace xt {

BufferId storage(const Schedule& schedule, BufferId id) {
  while (schedule.buffer(id).kind == BufferKind::view) id = schedule.buffer(id).parent;
  return id;
}

std::string op_name(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  const Origin& origin = op.origin;
  std::string text;
  if (origin.layer >= 0) text += fmt::format("layer {} ", origin.layer);
  text += phase_names[static_cast<std::size_t>(origin.phase)];
  if (origin.chunk >= 0) text += fmt::format(" chunk {}", origin.chunk);
  return fmt::format("{} {} {}", text, schedule.parts[origin.part], name(schedule.work(op).kernel));
}

Bindings assumed_bindings(const Schedule& schedule) {
  Bindings bindings;
  bindings.reserve(schedule.symbols.size());
  for (const Symbol& symbol : schedule.symbols) bindings.push_back(symbol.assumed);
  return bindings;
}

namespace {

// Folds 64-bit words: order matters, and the value is the same on every machine.
//
// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", mix64
class Digest {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0xbf58476d1ce4e5b9ULL;
    value_ ^= value_ >> 29;
  }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    add(text.size());
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x9e3779b97f4a7c15ULL;
};

void add_works_and_buffers(Digest& sum, const Schedule& schedule) {
  for (const Work& work : schedule.works) {
    sum.add(static_cast<std::uint64_t>(work.kernel) << 16 |
            static_cast<std::uint64_t>(work.dtype) << 8 | static_cast<std::uint64_t>(work.group));
    for (const Extent extent : work.extents) sum.add(static_cast<std::uint64_t>(extent.code));
  }
  for (const Buffer& buffer : schedule.buffers) {
    for (const Extent extent : buffer.shape) sum.add(static_cast<std::uint64_t>(extent.code));
    sum.add(static_cast<std::uint64_t>(buffer.offset_bytes));
    sum.add(static_cast<std::uint64_t>(buffer.last_op));
    sum.add(static_cast<std::uint64_t>(buffer.kind) << 16 |
            static_cast<std::uint64_t>(buffer.dtype) << 8 |
            static_cast<std::uint64_t>(buffer.space));
  }
}

}  // namespace

std::uint64_t digest(const Schedule& schedule) {
  Digest sum;
  sum.add(schedule.engine);
  sum.add(static_cast<std::uint64_t>(schedule.ranks));
  for (const GroupShape& group : schedule.groups) {
    sum.add(static_cast<std::uint64_t>(group.size));
    sum.add(static_cast<std::uint64_t>(group.stride));
  }
  add_works_and_buffers(sum, schedule);
  for (const Op& op : schedule.ops) {
    sum.add(at(op.work));
    sum.add(static_cast<std::uint64_t>(op.lane));
    sum.add(static_cast<std::uint64_t>(op.n_inputs) << 8 | op.n_outputs);
  }
  for (const BufferId id : schedule.operands) sum.add(at(id));
  for (const OpId id : schedule.dependencies) sum.add(at(id));
  for (const Section& section : schedule.sections) {
    sum.add(at(section.begin));
    sum.add(static_cast<std::uint64_t>(section.repeat));
  }
  for (const Placement& placement : schedule.placements) sum.add(placement.name);
  return sum.value();
}

}  // namespace xt
