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
};

/// Temporaries of a kernel call that are alive at once.
struct WorkspaceSpec {
  std::array<Extent, 3> shape{1, 1, 1};
  DType dtype = DType::fp32;
};

/// Everything that says what one op is.
struct OpSpec {
  Work work;
  Lane lane = Lane::compute;
  Origin origin;
  std::span<const BufferId> inputs;
  std::span<const BufferId> outputs;
  std::span<const WorkspaceSpec> workspaces;
  std::span<const OpId> after;  ///< further ops that must have ended before this one starts
};

class ScheduleBuilder {
 public:
  /// `expected_ops` is a hint of how much room to make.
  ScheduleBuilder(std::string engine, std::int32_t ranks, std::size_t expected_ops = 0);

  /// Index of the part called `name`; at most 255 parts.
  std::uint8_t part(std::string_view name);
  SymbolId symbol(SymbolKind kind, std::int16_t layer, std::int64_t assumed);

  BufferId resident(const TensorSpec& spec);
  /// A buffer that begins with its first writer.
  BufferId transient(const TensorSpec& spec);
  BufferId view(BufferId parent, std::int64_t offset_bytes, std::array<Extent, 3> shape,
                DType dtype);

  OpId add(const OpSpec& spec);
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
  static constexpr std::uint32_t never = 0xffffffff;
  /// Per lane: 1 + position of the latest op known to have ended; 0 if none. One slot more than
  /// there are lanes makes it two vector registers.
  using Clock = std::array<std::uint32_t, 8>;
  static_assert(n_lanes <= 8);

  struct Users {
    Clock writers{};
    Clock users{};
  };

  WorkId intern(const Work& work);
  BufferId add_buffer(const Buffer& buffer);
  Clock needed(const OpSpec& spec);
  void record_dependencies(Op& op, const Clock& required, Clock& clock);
  void record_uses(OpId id, const OpSpec& spec);
  bool covers(OpId id, const Clock& users) const;
  OpId ending(const Buffer& buffer, const Users& users) const;
  void write_ended();

  struct WorkHash {
    std::size_t operator()(const Work& work) const;
  };

  Schedule schedule_;
  std::vector<BufferId> storage_;  ///< root of each buffer's chain of views
  std::vector<Users> users_;       ///< by root buffer
  std::vector<Clock> clocks_;      ///< by op: what is known to have ended when it has
  std::array<Clock, n_lanes> lane_clocks_{};
  std::unordered_map<Work, WorkId, WorkHash> works_;
  std::uint32_t section_begin_ = 0;
};

}  // namespace xt
