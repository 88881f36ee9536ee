#pragma once

// The only description of a training step: ops on lanes, in issue order, with the buffers they
// read, write and end. Immutable; made by ScheduleBuilder, checked by verify(), read by every
// interpreter and knowing none of them.
//
// The rules that hold in every schedule (verify() checks each):
//   1. A dependency points to an earlier op; lanes are in-order queues.
//   2. A buffer begins with its first writer and is read only after it was written.
//   3. A buffer ends after an op of its own lane, or of the host lane, whose dependencies cover
//   every
//      user of the buffer.
//   4. All ranks issue the same ops in the same order, so collectives cannot cross.
//   5. A section that repeats leaves memory as it found it.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/ir/ids.h"
#include "costmodel/ir/memory_category.h"
#include "costmodel/ir/rope_scaling.h"
#include "costmodel/ir/work.h"
#include "costmodel/units/quantity.h"

namespace xt {

/// Asynchronous in-order queues of a rank. `host` is the thread that issues.
enum class Lane : std::uint8_t {
  host,
  compute,
  all_gather,
  reduce_scatter,
  expert,
  swap_out,
  swap_in
};

inline constexpr std::size_t n_lanes = 7;
inline constexpr std::array<std::string_view, n_lanes> lane_names = {
    "host", "compute", "all_gather", "reduce_scatter", "expert", "swap_out", "swap_in"};

/// The part of a step an op belongs to.
enum class Phase : std::uint8_t { prepare, forward, loss, recompute, backward, reduce, optimizer };

inline constexpr std::size_t n_phases = 7;
inline constexpr std::array<std::string_view, n_phases> phase_names = {
    "prepare", "forward", "loss", "recompute", "backward", "reduce", "optimizer"};

/// Where an op comes from; its name is derived from this and not stored.
struct Origin {
  Phase phase = Phase::prepare;
  std::uint8_t part = 0;    ///< index into Schedule::parts
  std::int16_t layer = -1;  ///< decoder layer, or −1
  std::int16_t chunk = -1;  ///< of the loss; of a layer, the micro-batch in lock-step; or −1

  auto operator<=>(const Origin&) const = default;
};

/// One op. Ranges point into the side arrays of the schedule.
struct Op {
  WorkId work{};
  Lane lane = Lane::compute;
  Origin origin;
  std::uint32_t first_operand = 0;     ///< inputs, then outputs, in the roles of the kernel
  std::uint32_t first_dependency = 0;  ///< dependencies on other lanes; the own lane is implied
  std::uint32_t first_ended = 0;       ///< buffers that end when this op has been issued
  std::uint8_t n_inputs = 0;
  std::uint8_t n_outputs = 0;
  std::uint16_t n_dependencies = 0;
  std::uint16_t n_ended = 0;

  auto operator<=>(const Op&) const = default;
};

/// How a buffer comes by its memory.
enum class BufferKind : std::uint8_t {
  resident,   ///< there before the step and after it
  transient,  ///< from its first writer to the op that ends it
  view,       ///< a part of its parent, without memory of its own
  workspace   ///< temporaries of one kernel call, for the length of that op
};

inline constexpr std::array<std::string_view, 4> buffer_kind_names = {"resident", "transient",
                                                                      "view", "workspace"};

/// A tensor of a schedule.
struct Buffer {
  std::array<Extent, 3> shape{1, 1, 1};
  std::int64_t offset_bytes = 0;  ///< of a view in its parent
  BufferId parent = no_buffer;    ///< of a view; otherwise none
  OpId first_op = no_op;          ///< the op that brings it into being; none if resident
  OpId last_op = no_op;           ///< the op that ends it; none if resident
  BufferKind kind = BufferKind::transient;
  DType dtype = DType::fp32;
  Space space = Space::device;
  MemoryCategory category = MemoryCategory::other;
  Lane lane = Lane::compute;  ///< the lane in whose order the memory is used again
  Lane pool = Lane::compute;  ///< whose reserve of memory the allocator takes it from

  auto operator<=>(const Buffer&) const = default;

  std::int64_t elements(const Bindings& bindings) const {
    return shape[0].value(bindings) * shape[1].value(bindings) * shape[2].value(bindings);
  }
  /// Bytes of memory that the buffer itself takes or, for a view, covers.
  Bytes bytes(const Bindings& bindings) const { return Bytes(elements(bindings) * width(dtype)); }
};

/// Memory of a transient buffer that has ended, which the allocator cannot use again until the host
/// has waited: no tensor has it, its pool does.
struct HeldBack {
  BufferId buffer{};
  OpId until{};  ///< the last op that is issued without it

  auto operator<=>(const HeldBack&) const = default;
};

/// A run of ops that a step executes `repeat` times in a row. Lanes are drained at its end.
struct Section {
  OpId begin{};
  OpId end{};
  std::int32_t repeat = 1;

  auto operator<=>(const Section&) const = default;
};

/// A value that the data decides, with what is assumed of it before.
struct Symbol {
  SymbolKind kind = SymbolKind::rows_received;
  std::int16_t layer = -1;
  std::int64_t assumed = 0;
  std::int64_t parts = 1;        ///< of a pack's value, an op sees one of so many equal parts
  std::int16_t micro_batch = 0;  ///< in lock-step, whose

  auto operator<=>(const Symbol&) const = default;
};

/// The ranks of a group: `size` of them, `stride` apart.
struct GroupShape {
  std::int32_t size = 1;
  std::int32_t stride = 1;

  auto operator<=>(const GroupShape&) const = default;
};

/// Where a parameter of the model lies: in which flat shard and where in the flat buffer.
struct Placement {
  std::string name;  ///< as in the model's published weights
  std::array<std::int64_t, 3> shape{1, 1, 1};
  std::int32_t n_dimensions = 1;
  std::int32_t expert = -1;  ///< local expert index for one slice of a fused expert weight
  bool is_stacked = false;   ///< the published tensor has the slices of all experts
  std::int32_t flat = 0;     ///< index into Schedule::flats
  std::int64_t offset_elements = 0;

  auto operator<=>(const Placement&) const = default;
};

/// Parameters that are gathered, reduced and updated together, split evenly over a group; what
/// learns by no gradient has no moments. Further
/// resident buffers of a flat come behind its parameter and before that of the next flat.
struct Flat {
  std::string name;
  Group group = Group::shard;
  std::int64_t elements = 0;  ///< padded, all ranks of the group together
  BufferId parameter = no_buffer;
  BufferId exp_avg = no_buffer;
  BufferId exp_avg_sq = no_buffer;
  std::int16_t layer = -1;  ///< decoder layer, or −1

  auto operator<=>(const Flat&) const = default;
};

/// Resident buffers that the data loader fills before each micro-step.
struct BatchBuffers {
  BufferId tokens = no_buffer;
  BufferId labels = no_buffer;
  BufferId positions = no_buffer;
  BufferId boundaries = no_buffer;
  BufferId valid_tokens = no_buffer;  ///< labels that count: of this rank before, of all after
  BufferId loss = no_buffer;          ///< mean loss of the valid tokens of all ranks, at the end
  BufferId grad_norm = no_buffer;     ///< sum of squares of all gradients, at the end
  BufferId balance_loss = no_buffer;  ///< auxiliary loss of routers, at the end, where there is one

  auto operator<=>(const BatchBuffers&) const = default;
};

/// Numbers that kernels need beside their operands.
struct ModelConstants {
  double rms_norm_eps = 1e-6;
  double rope_theta = 1e6;
  bool norm_topk_prob = true;
  RopeScaling rope_scaling;
  double attention_scale = 1;      ///< of scores, beside one over the root of the head size
  double swiglu_limit = 7;         ///< of swiglu_clamped
  double router_scale = 1;         ///< of the weights of sigmoid_top_k
  std::int64_t router_groups = 1;  ///< of experts, of which a token goes to some alone
  std::int64_t chosen_groups = 1;

  auto operator<=>(const ModelConstants&) const = default;
};

/// One training step: see the rules above.
struct Schedule {
  std::string engine;
  std::int32_t ranks = 1;
  std::array<GroupShape, group_names.size()> groups{};
  std::vector<std::string> parts;
  std::vector<Symbol> symbols;
  std::vector<Work> works;
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  std::vector<BufferId> operands;
  std::vector<OpId> dependencies;
  std::vector<BufferId> ended;
  std::vector<Section> sections;
  std::vector<Flat> flats;
  std::vector<Placement> placements;
  std::vector<HeldBack> held_back;
  BatchBuffers batch;
  ModelConstants constants;

  bool operator==(const Schedule&) const = default;

  const Op& op(OpId id) const { return ops[at(id)]; }
  const Buffer& buffer(BufferId id) const { return buffers[at(id)]; }
  const Work& work(const Op& of) const { return works[at(of.work)]; }
  const GroupShape& group(Group of) const { return groups[static_cast<std::size_t>(of)]; }
  std::span<const BufferId> inputs(const Op& of) const {
    return {operands.data() + of.first_operand, of.n_inputs};
  }
  std::span<const BufferId> outputs(const Op& of) const {
    return {operands.data() + of.first_operand + of.n_inputs, of.n_outputs};
  }
  /// Inputs, then outputs.
  std::span<const BufferId> operands_of(const Op& of) const {
    return {operands.data() + of.first_operand,
            static_cast<std::size_t>(of.n_inputs) + of.n_outputs};
  }
  std::span<const OpId> dependencies_of(const Op& of) const {
    return {dependencies.data() + of.first_dependency, of.n_dependencies};
  }
  std::span<const BufferId> ended_by(const Op& of) const {
    return {ended.data() + of.first_ended, of.n_ended};
  }
};

/// The buffer whose memory `id` lies in: itself, or the root of a chain of views.
BufferId storage(const Schedule& schedule, BufferId id);

/// The derived name of an op, such as `layer 3 backward attention.o_proj matmul_weight_backward`.
std::string op_name(const Schedule& schedule, OpId id);

/// The section that `op` is in.
std::size_t section_with(const Schedule& schedule, OpId op);

/// The values of all symbols as assumed before any data is seen.
Bindings assumed_bindings(const Schedule& schedule);

/// A queue of collectives over a group of ranks.
struct CommunicatorUse {
  Lane lane = Lane::all_gather;
  GroupShape group;
  bool exchanges = false;  ///< some of it are all-to-all, which needs every pair of ranks connected
  std::int64_t copied_row_bytes = 0;  ///< of rows that are sent once per rank; 0: there are none
};

/// The communicators that the ops of `schedule` need, each once: one runs one collective at a time,
/// so ops on several lanes need several, and groups of the same ranks share one on a lane.
/// Collectives of a single rank need none.
std::vector<CommunicatorUse> communicators(const Schedule& schedule);

/// A digest of everything that decides what runs; timelines of different digests do not compare.
std::uint64_t digest(const Schedule& schedule);

}  // namespace xt
