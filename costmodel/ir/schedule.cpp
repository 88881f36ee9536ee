#include "costmodel/ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>

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
  if (origin.chunk >= 0)
    text += fmt::format(" {} {}", origin.layer >= 0 ? "micro-batch" : "chunk", origin.chunk);
  return fmt::format("{} {} {}", text, schedule.parts[origin.part], name(schedule.work(op).kernel));
}

std::size_t section_with(const Schedule& schedule, OpId op) {
  const auto behind =
      std::partition_point(schedule.sections.begin(), schedule.sections.end(),
                           [&](const Section& section) { return at(section.end) <= at(op); });
  return static_cast<std::size_t>(behind - schedule.sections.begin());
}

Bindings assumed_bindings(const Schedule& schedule) {
  Bindings bindings;
  bindings.reserve(schedule.symbols.size());
  for (const Symbol& symbol : schedule.symbols) bindings.push_back(symbol.assumed);
  return bindings;
}

namespace {

// Whether the library that exchanges is one that sends a token once per rank, through buffers of
// its own: such an exchange says how many experts a token has.
bool sends_copies(const Work& work) {
  return work.kernel == Kernel::all_to_all && work.extents[4].code > 0;
}

}  // namespace

std::vector<CommunicatorUse> communicators(const Schedule& schedule) {
  std::vector<CommunicatorUse> result;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (kernel_class(work.kernel) != KernelClass::collective) continue;
    const GroupShape& group = schedule.group(work.group);
    if (group.size < 2) continue;
    auto found = std::ranges::find_if(
        result, [&](const CommunicatorUse& of) { return of.lane == op.lane && of.group == group; });
    if (found == result.end()) found = result.insert(found, {op.lane, group});
    if (sends_copies(work))
      found->copied_row_bytes = work.extents[2].code * std::max<std::int64_t>(2, width(work.dtype));
    else
      found->exchanges |=
          work.kernel == Kernel::all_to_all || work.kernel == Kernel::exchange_heads;
  }
  return result;
}

namespace {

// Folds records of 64-bit words: order matters, and the value is the same on every machine. The
// words of a record are multiplied side by side, so that only records wait for each other.
//
// Source: Lemire, Kaser 2014, "Strongly universal string hashing is fast", Comput. J. 57(11), for
// records; Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", for folding
class Digest {
 public:
  template <typename... Words>
  void add(Words... words) {
    static_assert(sizeof...(words) <= weights.size());
    std::size_t i = 0;
    std::uint64_t record = 0;
    ((record += static_cast<std::uint64_t>(words) * weights[i++]), ...);
    value_ = (value_ ^ record) * 0xbf58476d1ce4e5b9ULL;
    value_ ^= value_ >> 29;
  }
  void add_text(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  }
  template <typename Id>
  void add_ids(std::span<const Id> ids) {
    add(ids.size());
    for (; ids.size() >= 4; ids = ids.subspan(4)) add(ids[0], ids[1], ids[2], ids[3]);
    for (const Id id : ids) add(id);
  }
  std::uint64_t value() const { return value_; }

 private:
  static constexpr std::array<std::uint64_t, 7> weights = {
      0x9e3779b97f4a7c15ULL, 0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL, 0xd6e8feb86659fd93ULL,
      0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL, 0xa0761d6478bd642fULL};

  std::uint64_t value_ = 0x9e3779b97f4a7c15ULL;
};

void add_works_and_buffers(Digest& sum, const Schedule& schedule) {
  for (const Work& work : schedule.works) {
    const auto& e = work.extents;
    sum.add(work.kernel, work.dtype, work.group);
    sum.add(e[0].code, e[1].code, e[2].code, e[3].code, e[4].code, e[5].code, e[6].code);
  }
  for (const Buffer& buffer : schedule.buffers) {
    const std::uint64_t kinds = static_cast<std::uint64_t>(buffer.kind) << 16 |
                                static_cast<std::uint64_t>(buffer.dtype) << 8 |
                                static_cast<std::uint64_t>(buffer.space);
    sum.add(buffer.shape[0].code, buffer.shape[1].code, buffer.shape[2].code, buffer.offset_bytes,
            buffer.last_op, kinds);
  }
}

}  // namespace

std::uint64_t digest(const Schedule& schedule) {
  Digest sum;
  sum.add_text(schedule.engine);
  sum.add(schedule.ranks);
  for (const GroupShape& group : schedule.groups) sum.add(group.size, group.stride);
  add_works_and_buffers(sum, schedule);
  for (const Op& op : schedule.ops) sum.add(op.work, op.lane, op.n_inputs, op.n_outputs);
  sum.add_ids(std::span(schedule.operands));
  sum.add_ids(std::span(schedule.dependencies));
  for (const Section& section : schedule.sections) sum.add(section.begin, section.repeat);
  for (const Placement& placement : schedule.placements) sum.add_text(placement.name);
  return sum.value();
}

}  // namespace xt
