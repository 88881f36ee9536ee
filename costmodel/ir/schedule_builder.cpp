#include "costmodel/ir/schedule_builder.h"

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

template <typename Clock>
void merge(Clock& into, const Clock& from) {
  for (std::size_t lane = 0; lane < into.size(); ++lane)
    into[lane] = std::max(into[lane], from[lane]);
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(std::string engine, std::int32_t ranks, std::size_t expected_ops) {
  schedule_.engine = std::move(engine);
  schedule_.ranks = ranks;
  schedule_.ops.reserve(expected_ops);
  clocks_.reserve(expected_ops);
  schedule_.operands.reserve(expected_ops * 4);
  schedule_.buffers.reserve(expected_ops * 2);
  storage_.reserve(expected_ops * 2);
  users_.reserve(expected_ops * 2);
}

std::size_t ScheduleBuilder::WorkHash::operator()(const Work& work) const {
  std::uint64_t h = static_cast<std::uint64_t>(work.kernel) << 16 |
                    static_cast<std::uint64_t>(work.dtype) << 8 |
                    static_cast<std::uint64_t>(work.group);
  for (const Extent extent : work.extents)
    h = (h ^ static_cast<std::uint64_t>(extent.code)) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

std::uint8_t ScheduleBuilder::part(std::string_view name) {
  std::vector<std::string>& parts = schedule_.parts;
  const auto found = std::find(parts.begin(), parts.end(), name);
  if (found != parts.end()) return static_cast<std::uint8_t>(found - parts.begin());
  XT_CHECK(parts.size() < 255);
  parts.emplace_back(name);
  return static_cast<std::uint8_t>(parts.size() - 1);
}

SymbolId ScheduleBuilder::symbol(SymbolKind kind, std::int16_t layer, std::int64_t assumed) {
  schedule_.symbols.push_back({kind, layer, assumed});
  return static_cast<SymbolId>(schedule_.symbols.size() - 1);
}

BufferId ScheduleBuilder::add_buffer(const Buffer& buffer) {
  const auto id = static_cast<BufferId>(schedule_.buffers.size());
  schedule_.buffers.push_back(buffer);
  storage_.push_back(buffer.kind == BufferKind::view ? storage_[at(buffer.parent)] : id);
  users_.emplace_back();
  return id;
}

BufferId ScheduleBuilder::resident(const TensorSpec& spec) {
  Buffer buffer;
  buffer.shape = spec.shape;
  buffer.dtype = spec.dtype;
  buffer.space = spec.space;
  buffer.category = spec.category;
  buffer.lane = spec.lane;
  buffer.kind = BufferKind::resident;
  return add_buffer(buffer);
}

BufferId ScheduleBuilder::transient(const TensorSpec& spec) {
  const BufferId id = resident(spec);
  schedule_.buffers[at(id)].kind = BufferKind::transient;
  return id;
}

BufferId ScheduleBuilder::view(BufferId parent, std::int64_t offset_bytes,
                               std::array<Extent, 3> shape, DType dtype) {
  const Buffer& whole = schedule_.buffer(parent);
  Buffer buffer;
  buffer.shape = shape;
  buffer.offset_bytes = offset_bytes;
  buffer.parent = parent;
  buffer.kind = BufferKind::view;
  buffer.dtype = dtype;
  buffer.space = whole.space;
  buffer.category = whole.category;
  return add_buffer(buffer);
}

WorkId ScheduleBuilder::intern(const Work& work) {
  const auto [found, is_new] =
      works_.try_emplace(work, static_cast<WorkId>(schedule_.works.size()));
  if (is_new) schedule_.works.push_back(work);
  return found->second;
}

// What must have ended before the op may start: writers of what it reads, users of what it writes,
// and, where it brings memory of another lane into being, everything issued on that lane.
ScheduleBuilder::Clock ScheduleBuilder::needed(const OpSpec& spec) {
  Clock required{};
  for (const BufferId id : spec.inputs) merge(required, users_[at(storage_[at(id)])].writers);
  for (const BufferId id : spec.outputs) {
    const BufferId root = storage_[at(id)];
    merge(required, users_[at(root)].users);
    const Buffer& buffer = schedule_.buffer(root);
    const std::size_t owner = index(buffer.lane);
    if (buffer.kind == BufferKind::transient && buffer.first_op == no_op)
      required[owner] = std::max(required[owner], lane_clocks_[owner][owner]);
  }
  for (const OpId id : spec.after) {
    const std::size_t lane = index(schedule_.op(id).lane);
    required[lane] = std::max(required[lane], static_cast<std::uint32_t>(id) + 1);
  }
  return required;
}

// Keeps only what the own lane, the host and the other dependencies do not imply already.
void ScheduleBuilder::record_dependencies(Op& op, const Clock& required, Clock& clock) {
  op.first_dependency = static_cast<std::uint32_t>(schedule_.dependencies.size());
  for (std::size_t lane = n_lanes; lane-- > 0;) {
    if (required[lane] <= clock[lane]) continue;
    const OpId dependency{required[lane] - 1};
    schedule_.dependencies.push_back(dependency);
    merge(clock, clocks_[at(dependency)]);
    ++op.n_dependencies;
  }
}

void ScheduleBuilder::record_uses(OpId id, const OpSpec& spec) {
  const std::size_t lane = index(spec.lane);
  const std::uint32_t stamp = static_cast<std::uint32_t>(id) + 1;
  for (const BufferId input : spec.inputs) users_[at(storage_[at(input)])].users[lane] = stamp;
  for (const BufferId output : spec.outputs) {
    const BufferId root = storage_[at(output)];
    users_[at(root)].users[lane] = stamp;
    users_[at(root)].writers[lane] = stamp;
    Buffer& buffer = schedule_.buffers[at(root)];
    if (buffer.kind == BufferKind::transient && buffer.first_op == no_op) buffer.first_op = id;
  }
}

OpId ScheduleBuilder::add(const OpSpec& spec) {
  const auto id = static_cast<OpId>(schedule_.ops.size());
  Op op;
  op.work = intern(spec.work);
  op.lane = spec.lane;
  op.origin = spec.origin;
  op.first_operand = static_cast<std::uint32_t>(schedule_.operands.size());
  op.n_inputs = static_cast<std::uint8_t>(spec.inputs.size());
  op.n_outputs = static_cast<std::uint8_t>(spec.outputs.size());
  schedule_.operands.insert(schedule_.operands.end(), spec.inputs.begin(), spec.inputs.end());
  schedule_.operands.insert(schedule_.operands.end(), spec.outputs.begin(), spec.outputs.end());

  const std::size_t lane = index(spec.lane);
  Clock clock = lane_clocks_[lane];
  merge(clock, lane_clocks_[index(Lane::host)]);
  record_dependencies(op, needed(spec), clock);
  clock[lane] = static_cast<std::uint32_t>(id) + 1;
  lane_clocks_[lane] = clock;
  clocks_.push_back(clock);
  schedule_.ops.push_back(op);
  record_uses(id, spec);
  for (const WorkspaceSpec& workspace : spec.workspaces) {
    Buffer buffer;
    buffer.shape = workspace.shape;
    buffer.dtype = workspace.dtype;
    buffer.kind = BufferKind::workspace;
    buffer.category = MemoryCategory::workspace;
    buffer.first_op = buffer.last_op = id;
    add_buffer(buffer);
  }
  return id;
}

void ScheduleBuilder::hold(BufferId buffer, OpId op) {
  std::uint32_t& user = users_[at(storage_[at(buffer)])].users[index(schedule_.op(op).lane)];
  user = std::max(user, static_cast<std::uint32_t>(op) + 1);
}

void ScheduleBuilder::end_section(std::int32_t repeat, Origin origin) {
  std::array<OpId, n_lanes> latest{};
  std::size_t n = 0;
  for (std::size_t lane = 0; lane < n_lanes; ++lane)
    if (lane_clocks_[lane][lane] > 0) latest[n++] = OpId{lane_clocks_[lane][lane] - 1};
  OpSpec spec;
  spec.work.kernel = Kernel::wait;
  spec.lane = Lane::host;
  spec.origin = origin;
  spec.after = {latest.data(), n};
  add(spec);
  const auto end = static_cast<std::uint32_t>(schedule_.ops.size());
  schedule_.sections.push_back({OpId{section_begin_}, OpId{end}, repeat});
  section_begin_ = end;
}

bool ScheduleBuilder::covers(OpId id, const Clock& users) const {
  const Clock& clock = clocks_[at(id)];
  bool is_covered = true;
  for (std::size_t lane = 0; lane < users.size(); ++lane)
    is_covered = is_covered & (clock[lane] >= users[lane]);
  return is_covered;
}

// The first op of the buffer's lane, or of the host, that knows every user to have ended.
OpId ScheduleBuilder::ending(const Buffer& buffer, const Users& users) const {
  const std::uint32_t own = users.users[index(buffer.lane)];
  if (own > 0 && covers(OpId{own - 1}, users.users)) return OpId{own - 1};
  const std::uint32_t last = *std::max_element(users.users.begin(), users.users.end());
  for (std::uint32_t i = last - 1; i < schedule_.ops.size(); ++i) {
    const Lane lane = schedule_.ops[i].lane;
    if ((lane == buffer.lane || lane == Lane::host) && covers(OpId{i}, users.users)) return OpId{i};
  }
  return no_op;
}

void ScheduleBuilder::write_ended() {
  std::vector<std::uint32_t> counts(schedule_.ops.size(), 0);
  for (const Buffer& buffer : schedule_.buffers)
    if (buffer.kind == BufferKind::transient) ++counts[at(buffer.last_op)];
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    schedule_.ops[i].first_ended = first;
    first += counts[i];
  }
  schedule_.ended.resize(first);
  for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) {
    const Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind != BufferKind::transient) continue;
    Op& op = schedule_.ops[at(buffer.last_op)];
    schedule_.ended[op.first_ended + op.n_ended++] = static_cast<BufferId>(i);
  }
}

Schedule ScheduleBuilder::finish() && {
  XT_CHECK(section_begin_ == schedule_.ops.size());
  for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) {
    Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind != BufferKind::transient) continue;
    XT_CHECK(buffer.first_op != no_op, i);
    buffer.last_op = ending(buffer, users_[i]);
    XT_CHECK(buffer.last_op != no_op, i, op_name(schedule_, buffer.first_op));
  }
  write_ended();
  return std::move(schedule_);
}

}  // namespace xt
