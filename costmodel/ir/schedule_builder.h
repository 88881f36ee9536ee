#pragma once

// The only way to make a Schedule. The builder derives dependencies from the buffers that ops read
// and write, and the end of every buffer from the clocks of its users; lowering says only what
// happens in which order. Rules 1 to 4 of schedule.h hold by construction.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "costmodel/ir/schedule.h"

namespace xt {

/// Shape, type and purpose of a tensor to be.
struct TensorSpec {
  std::array<Extent, 3> shape{1, 1, 1};
  DType dtype = DType::fp32;
  MemoryCategory category = MemoryCategory::other;
  Space space = Space::device;
  Lane lane = Lane::compute;
  Lane pool = Lane::compute;
};

/// Temporaries of a kernel call that are alive at once.
struct WorkspaceSpec {
  std::array<Extent, 3> shape{1, 1, 1};
  DType dtype = DType::fp32;
};

/// Where an op stands and what it touches: everything but its work.
struct OpUse {
  Lane lane = Lane::compute;
  Origin origin;
  std::span<const BufferId> inputs;
  std::span<const BufferId> outputs;
  std::span<const WorkspaceSpec> workspaces;
  std::span<const OpId> after;  ///< further ops that must have ended before this one starts
};

/// Everything that says what one op is.
struct OpSpec {
  Work work;
  Lane lane = Lane::compute;
  Origin origin;
  std::span<const BufferId> inputs;
  std::span<const BufferId> outputs;
  std::span<const WorkspaceSpec> workspaces;
  std::span<const OpId> after;  ///< as in OpUse
};

/// Appends ops and makes them a Schedule.
class ScheduleBuilder {
 public:
  /// `expected_ops` is a hint of how much room to make.
  ScheduleBuilder(std::string engine, std::int32_t ranks, std::size_t expected_ops = 0);

  /// Index of the part called `name`; at most 255 parts.
  std::uint8_t part(std::string_view name);
  SymbolId symbol(SymbolKind kind, std::int16_t layer, std::int64_t assumed, std::int64_t parts = 1,
                  std::int16_t micro_batch = 0);
  /// The id of `work`, to write many ops of the same work without comparing it again.
  WorkId intern(const Work& work);

  BufferId resident(const TensorSpec& spec);
  /// A buffer that begins with its first writer.
  BufferId transient(const TensorSpec& spec);
  BufferId view(BufferId parent, std::int64_t offset_bytes, const std::array<Extent, 3>& shape,
                DType dtype);

  OpId add(const OpSpec& spec);
  OpId add(WorkId work, const OpUse& use);
  /// Keeps `buffer` alive until `op` has been issued, though `op` does not touch it.
  void hold(BufferId buffer, OpId op);

  /// Closes the section of all ops since the last one; it runs `repeat` times.
  /// A host op that waits for every lane is added, so that whatever is in flight can end.
  void end_section(std::int32_t repeat, Origin origin);

  /// Parts of the schedule that lowering fills in directly.
  Schedule& draft() { return schedule_; }

  std::size_t n_ops() const { return schedule_.ops.size(); }

  /// Ends every transient buffer and returns the schedule.
  Schedule finish() &&;

 private:
  /// 1 + position of an op, so that 0 comes before all of them.
  using Stamp = std::int32_t;
  /// Per lane: the latest op known to have ended. Two vector registers; the last slot is unused.
  using Clock = std::array<Stamp, 8>;
  static_assert(n_lanes <= 8);

  /// What the ops of a lane know of other lanes, from the op at `since` on.
  struct Knowledge {
    Stamp since = 0;
    Clock clock{};
  };

  /// The latest uses of a buffer on lanes other than its own.
  struct UsesElsewhere {
    Clock users{};
    Clock writers{};
  };
  static constexpr std::uint32_t nowhere = 0xffffffff;

  /// The latest uses of a buffer that has memory; most are only ever used on their own lane.
  struct Uses {
    BufferId buffer{};
    Stamp user = 0;
    Stamp writer = 0;
    std::uint32_t elsewhere = nowhere;  ///< index into elsewhere_
    Lane lane = Lane::compute;
    bool is_transient = false;
    bool is_unborn = false;  ///< transient, and not written yet

    bool stay_on(Lane of) const { return lane == of && elsewhere == nowhere; }
  };

  /// What must have ended before an op may start. Entries of its own lane mean nothing.
  struct Needs {
    Clock clock{};
    bool is_empty = true;  ///< the order of its lane is all it needs
  };

  BufferId add_buffer(const TensorSpec& spec, BufferKind kind);
  void add_workspace(const WorkspaceSpec& spec, OpId op);
  Uses& uses_of(BufferId id) { return uses_[storage_[at(id)]]; }
  UsesElsewhere& elsewhere(Uses& uses);
  void read(Needs& needs, Uses& uses, Lane lane, Stamp stamp);
  void write(Needs& needs, Uses& uses, Lane lane, Stamp stamp);
  Needs touch(const OpUse& use, Stamp stamp);
  void require(Clock& required, OpId op) const;
  void learn(Op& op, Stamp stamp, const Clock& required);
  Stamp first_knowing(Lane lane, const Uses& uses) const;
  Stamp ending(const Uses& uses) const;
  void write_ended();

  struct WorkHash {
    std::size_t operator()(const Work& work) const;
  };

  Schedule schedule_;
  std::unordered_map<std::string, std::uint8_t> parts_;
  std::unordered_map<Work, WorkId, WorkHash> works_;
  std::vector<std::uint32_t> storage_;  ///< by buffer: index into uses_ of the memory it lies in
  std::vector<Uses> uses_;              ///< by buffer with memory, workspaces excepted
  std::vector<UsesElsewhere> elsewhere_;
  std::array<Stamp, n_lanes> latest_{};                    ///< op of each lane
  std::array<std::vector<Knowledge>, n_lanes> knowledge_;  ///< by lane, ever growing
  std::vector<std::uint32_t> known_;  ///< by op: position in the knowledge of its lane
  std::uint32_t section_begin_ = 0;
};

}  // namespace xt
