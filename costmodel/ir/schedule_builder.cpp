#include "costmodel/ir/schedule_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

constexpr std::int32_t after_all = std::numeric_limits<std::int32_t>::max();

constexpr std::int32_t stamp_of(OpId op) { return static_cast<std::int32_t>(op) + 1; }

constexpr OpId op_of(std::int32_t stamp) { return OpId(static_cast<std::uint32_t>(stamp - 1)); }

// By value, since clocks that may be one and the same are not merged lane by lane at once.
template <typename Clock>
void merge(Clock& into, const Clock from) {
  for (std::size_t lane = 0; lane < into.size(); ++lane)
    into[lane] = std::max(into[lane], from[lane]);
}

}  // namespace

// Room is mere address space until it is used.
ScheduleBuilder::ScheduleBuilder(std::string engine, std::int32_t ranks, std::size_t expected_ops) {
  schedule_.engine = std::move(engine);
  schedule_.ranks = ranks;
  schedule_.ops.reserve(expected_ops);
  schedule_.operands.reserve(expected_ops * 5);
  schedule_.buffers.reserve(expected_ops * 2);
  storage_.reserve(expected_ops * 2);
  uses_.reserve(expected_ops);
  known_.reserve(expected_ops);
  for (std::vector<Knowledge>& knowledge : knowledge_) knowledge.push_back({});
}

std::size_t ScheduleBuilder::WorkHash::operator()(const Work& work) const {
  constexpr std::array<std::uint64_t, max_extents> weights = {
      0x9e3779b97f4a7c15ULL, 0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL, 0xd6e8feb86659fd93ULL,
      0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL, 0xa0761d6478bd642fULL};
  std::uint64_t h = static_cast<std::uint64_t>(work.kernel) << 16 |
                    static_cast<std::uint64_t>(work.dtype) << 8 |
                    static_cast<std::uint64_t>(work.group);
  for (std::size_t i = 0; i < max_extents; ++i)
    h += static_cast<std::uint64_t>(work.extents[i].code) * weights[i];
  return static_cast<std::size_t>(h ^ (h >> 32));
}

std::uint8_t ScheduleBuilder::part(std::string_view name) {
  const auto [found, is_new] =
      parts_.try_emplace(std::string(name), static_cast<std::uint8_t>(schedule_.parts.size()));
  if (is_new) {
    XT_CHECK(schedule_.parts.size() < 255);
    schedule_.parts.emplace_back(name);
  }
  return found->second;
}

SymbolId ScheduleBuilder::symbol(SymbolKind kind, std::int16_t layer, std::int64_t assumed,
                                 std::int64_t parts, std::int16_t micro_batch) {
  schedule_.symbols.push_back({kind, layer, assumed, parts, micro_batch});
  return static_cast<SymbolId>(schedule_.symbols.size() - 1);
}

WorkId ScheduleBuilder::intern(const Work& work) {
  const auto [found, is_new] =
      works_.try_emplace(work, static_cast<WorkId>(schedule_.works.size()));
  if (is_new) schedule_.works.push_back(work);
  return found->second;
}

BufferId ScheduleBuilder::add_buffer(const TensorSpec& spec, BufferKind kind) {
  const auto id = static_cast<BufferId>(schedule_.buffers.size());
  Buffer& buffer = schedule_.buffers.emplace_back();
  buffer.shape = spec.shape;
  buffer.dtype = spec.dtype;
  buffer.space = spec.space;
  buffer.category = spec.category;
  buffer.lane = spec.lane;
  buffer.pool = spec.pool;
  buffer.kind = kind;
  storage_.push_back(static_cast<std::uint32_t>(uses_.size()));
  const bool is_transient = kind == BufferKind::transient;
  uses_.push_back({id, 0, 0, nowhere, spec.lane, is_transient, is_transient});
  return id;
}

BufferId ScheduleBuilder::resident(const TensorSpec& spec) {
  return add_buffer(spec, BufferKind::resident);
}

BufferId ScheduleBuilder::transient(const TensorSpec& spec) {
  return add_buffer(spec, BufferKind::transient);
}

BufferId ScheduleBuilder::view(BufferId parent, std::int64_t offset_bytes,
                               const std::array<Extent, 3>& shape, DType dtype) {
  const auto id = static_cast<BufferId>(schedule_.buffers.size());
  Buffer& buffer = schedule_.buffers.emplace_back();
  const Buffer& whole = schedule_.buffer(parent);
  buffer.shape = shape;
  buffer.offset_bytes = offset_bytes;
  buffer.parent = parent;
  buffer.kind = BufferKind::view;
  buffer.dtype = dtype;
  buffer.space = whole.space;
  buffer.category = whole.category;
  storage_.push_back(storage_[at(parent)]);
  return id;
}

void ScheduleBuilder::add_workspace(const WorkspaceSpec& spec, OpId op) {
  Buffer& buffer = schedule_.buffers.emplace_back();
  buffer.shape = spec.shape;
  buffer.dtype = spec.dtype;
  buffer.kind = BufferKind::workspace;
  buffer.category = MemoryCategory::workspace;
  buffer.first_op = buffer.last_op = op;
  storage_.push_back(nowhere);
}

ScheduleBuilder::UsesElsewhere& ScheduleBuilder::elsewhere(Uses& uses) {
  if (uses.elsewhere == nowhere) {
    uses.elsewhere = static_cast<std::uint32_t>(elsewhere_.size());
    elsewhere_.emplace_back();
  }
  return elsewhere_[uses.elsewhere];
}

void ScheduleBuilder::require(Clock& required, OpId op) const {
  Stamp& stamp = required[index(schedule_.op(op).lane)];
  stamp = std::max(stamp, stamp_of(op));
}

// A reader needs the writers to have ended.
void ScheduleBuilder::read(Needs& needs, Uses& uses, Lane lane, Stamp stamp) {
  if (uses.elsewhere != nowhere) {
    needs.is_empty = false;
    merge(needs.clock, elsewhere_[uses.elsewhere].writers);
  }
  if (uses.lane == lane) {
    uses.user = stamp;
    return;
  }
  needs.is_empty = false;
  Stamp& owner = needs.clock[index(uses.lane)];
  owner = std::max(owner, uses.writer);
  elsewhere(uses).users[index(lane)] = stamp;
}

// A writer needs all users to have ended and, where it brings memory of another lane into being,
// everything issued on that lane.
void ScheduleBuilder::write(Needs& needs, Uses& uses, Lane lane, Stamp stamp) {
  if (uses.elsewhere != nowhere) {
    needs.is_empty = false;
    merge(needs.clock, elsewhere_[uses.elsewhere].users);
  }
  if (uses.lane == lane) {
    uses.user = uses.writer = stamp;
  } else {
    needs.is_empty = false;
    Stamp& owner = needs.clock[index(uses.lane)];
    owner = std::max(owner, uses.is_unborn ? latest_[index(uses.lane)] : uses.user);
    UsesElsewhere& other = elsewhere(uses);
    other.users[index(lane)] = other.writers[index(lane)] = stamp;
  }
  if (uses.is_unborn) schedule_.buffers[at(uses.buffer)].first_op = op_of(stamp);
  uses.is_unborn = false;
}

// Appends the operands of an op, notes that it uses them, and finds what it therefore needs. Nearly
// all buffers are only ever used on one lane, whose order is all they need.
ScheduleBuilder::Needs ScheduleBuilder::touch(const OpUse& use, Stamp stamp) {
  Needs needs;
  for (const BufferId id : use.inputs) {
    schedule_.operands.push_back(id);
    Uses& uses = uses_of(id);
    if (uses.stay_on(use.lane)) {
      uses.user = stamp;
    } else {
      read(needs, uses, use.lane, stamp);
    }
  }
  for (const BufferId id : use.outputs) {
    schedule_.operands.push_back(id);
    Uses& uses = uses_of(id);
    if (uses.stay_on(use.lane) && !uses.is_unborn) {
      uses.user = uses.writer = stamp;
    } else {
      write(needs, uses, use.lane, stamp);
    }
  }
  for (const OpId op : use.after) require(needs.clock, op);
  needs.is_empty = needs.is_empty && use.after.empty();
  return needs;
}

// Depends only on what the own lane, the host and the other dependencies do not imply already.
void ScheduleBuilder::learn(Op& op, Stamp stamp, const Clock& required) {
  std::vector<Knowledge>& knowledge = knowledge_[index(op.lane)];
  Clock clock = knowledge.back().clock;
  const auto hear_of = [&](std::size_t lane, Stamp other) {
    merge(clock, knowledge_[lane][known_[at(op_of(other))]].clock);
    clock[lane] = std::max(clock[lane], other);
  };
  const std::size_t host = index(Lane::host);
  if (op.lane != Lane::host && clock[host] < latest_[host]) hear_of(host, latest_[host]);
  for (std::size_t lane = n_lanes; lane-- > 0;) {
    if (lane == index(op.lane) || required[lane] <= clock[lane]) continue;
    schedule_.dependencies.push_back(op_of(required[lane]));
    ++op.n_dependencies;
    hear_of(lane, required[lane]);
  }
  if (clock != knowledge.back().clock) knowledge.push_back({stamp, clock});
}

OpId ScheduleBuilder::add(const OpSpec& spec) {
  return add(intern(spec.work),
             {spec.lane, spec.origin, spec.inputs, spec.outputs, spec.workspaces, spec.after});
}

OpId ScheduleBuilder::add(WorkId work, const OpUse& use) {
  const auto id = static_cast<OpId>(schedule_.ops.size());
  Op& op = schedule_.ops.emplace_back();
  op.work = work;
  op.lane = use.lane;
  op.origin = use.origin;
  op.first_operand = static_cast<std::uint32_t>(schedule_.operands.size());
  op.n_inputs = static_cast<std::uint8_t>(use.inputs.size());
  op.n_outputs = static_cast<std::uint8_t>(use.outputs.size());
  op.first_dependency = static_cast<std::uint32_t>(schedule_.dependencies.size());
  const Needs needs = touch(use, stamp_of(id));
  const Clock& known = knowledge_[index(use.lane)].back().clock;
  const bool host_is_known = known[index(Lane::host)] == latest_[index(Lane::host)];
  if (!needs.is_empty || !host_is_known) learn(op, stamp_of(id), needs.clock);
  latest_[index(use.lane)] = stamp_of(id);
  known_.push_back(static_cast<std::uint32_t>(knowledge_[index(use.lane)].size() - 1));
  for (const WorkspaceSpec& workspace : use.workspaces) add_workspace(workspace, id);
  return id;
}

void ScheduleBuilder::hold(BufferId buffer, OpId op) {
  Uses& uses = uses_of(buffer);
  const Lane lane = schedule_.op(op).lane;
  Stamp& user = lane == uses.lane ? uses.user : elsewhere(uses).users[index(lane)];
  user = std::max(user, stamp_of(op));
}

void ScheduleBuilder::end_section(std::int32_t repeat, Origin origin) {
  std::array<OpId, n_lanes> latest{};
  std::size_t n = 0;
  for (const Stamp stamp : latest_)
    if (stamp > 0) latest[n++] = op_of(stamp);
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

// The first op of `lane` that knows all users of a buffer to have ended. Knowledge only grows, so
// that it is sought behind the last user on that lane, from where the latest of those on other
// lanes is known. Users are read where they are: in a copy that was just changed, loads of several
// lanes at once would wait for the change.
ScheduleBuilder::Stamp ScheduleBuilder::first_knowing(Lane lane, const Uses& uses) const {
  const Clock& elsewhere = elsewhere_[uses.elsewhere].users;
  const bool is_owner = lane == uses.lane;
  const Stamp own = is_owner ? uses.user : elsewhere[index(lane)];
  Lane latest = is_owner ? lane : uses.lane;
  Stamp latest_user = is_owner ? 0 : uses.user;
  int n_lanes_in_use = 0;
  for (std::size_t l = 0; l < n_lanes; ++l) {
    if (elsewhere[l] == 0 || l == index(lane)) continue;
    ++n_lanes_in_use;
    if (elsewhere[l] <= latest_user) continue;
    latest = static_cast<Lane>(l);
    latest_user = elsewhere[l];
  }
  const std::vector<Knowledge>& knowledge = knowledge_[index(lane)];
  auto knowing = knowledge.begin() + (own > 0 ? known_[at(op_of(own))] : 0);
  const auto is_too_early = [&](const Knowledge& known) {
    return known.clock[index(latest)] < latest_user;
  };
  // Steps grow, as most users are known to have ended a few entries on.
  std::ptrdiff_t step = 1;
  for (; step < knowledge.end() - knowing && is_too_early(knowing[step]); step *= 2)
    knowing += step;
  knowing = std::partition_point(knowing, knowing + std::min(step + 1, knowledge.end() - knowing),
                                 is_too_early);
  const auto knows_all = [&](const Knowledge& known) {
    if (!is_owner && known.clock[index(uses.lane)] < uses.user) return false;
    for (std::size_t l = 0; l < n_lanes; ++l)
      if (l != index(lane) && known.clock[l] < elsewhere[l]) return false;
    return true;
  };
  const bool is_one = n_lanes_in_use + (is_owner ? 0 : 1) == 1;
  if (!is_one)
    while (knowing != knowledge.end() && !knows_all(*knowing)) ++knowing;
  return knowing != knowledge.end() ? std::max(knowing->since, own) : after_all;
}

// The first op of the buffer's lane, or of the host, that knows every user to have ended.
ScheduleBuilder::Stamp ScheduleBuilder::ending(const Uses& uses) const {
  if (uses.elsewhere == nowhere) return uses.user;
  return std::min(first_knowing(uses.lane, uses), first_knowing(Lane::host, uses));
}

// Ends every buffer with its last user, which covers all of them.
void ScheduleBuilder::write_ended() {
  std::uint32_t end = 0;
  for (Op& op : schedule_.ops) op.first_ended = end += op.n_ended;
  schedule_.ended.resize(end);
  for (std::size_t i = uses_.size(); i-- > 0;) {
    if (!uses_[i].is_transient) continue;
    Op& op = schedule_.ops[at(op_of(uses_[i].user))];
    schedule_.ended[--op.first_ended] = uses_[i].buffer;
  }
}

Schedule ScheduleBuilder::finish() && {
  XT_CHECK(section_begin_ == schedule_.ops.size());
  for (Uses& uses : uses_) {
    if (!uses.is_transient) continue;
    Buffer& buffer = schedule_.buffers[at(uses.buffer)];
    XT_CHECK(!uses.is_unborn, at(uses.buffer));
    uses.user = ending(uses);
    XT_CHECK(uses.user != after_all, at(uses.buffer), op_name(schedule_, buffer.first_op));
    buffer.last_op = op_of(uses.user);
    ++schedule_.ops[at(buffer.last_op)].n_ended;
  }
  write_ended();
  return std::move(schedule_);
}

}  // namespace xt
