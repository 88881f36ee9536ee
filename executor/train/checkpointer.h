#pragma once

// Checkpoints written while training goes on: a rank copies its state into host memory, and a
// thread of its own writes the copy. One at most is under way; the next waits for it.

#include <future>
#include <memory>
#include <vector>

#include "executor/checkpoints/checkpoint_store.h"
#include "executor/train/training_state.h"
#include "executor/train/world.h"

namespace xt {

/// Writes a rank's part of every checkpoint.
class Checkpointer {
 public:
  /// `world` belongs to the writing threads alone. `kept` are steps whose checkpoints stand, the
  /// latest last; when one of this run is whole all others go, and of these all but the last
  /// `keep`.
  ///
  /// Assumes: `schedule` outlives the object
  Checkpointer(CheckpointStore store, const Schedule& schedule, World world,
               std::vector<std::int64_t> kept, std::size_t keep);

  /// Copies the state of this rank, once the checkpoint before is whole, and begins to write it.
  /// `file` says where the run stands, `metrics` its lines so far; both count on rank 0 alone.
  ///
  /// Throws: what writing the one before threw
  void begin(const BufferMemory& memory, CheckpointFile file, WrittenLines metrics);
  /// Throws: what writing threw, if it has: PeerLost; InputError; std::system_error
  void check();
  /// Returns when what began is whole.
  ///
  /// Throws: as check() does
  void wait();

 private:
  void write(CheckpointFile file, const WrittenLines& metrics);
  bool is_first() const { return world_.rank() == 0; }

  CheckpointStore store_;
  World world_;
  StateSnapshot snapshot_;
  std::vector<std::size_t> states_;
  std::vector<std::int64_t> kept_;
  std::size_t keep_;
  std::future<void> writing_;
};

/// The sums over all ranks of what each gives.
///
/// Throws: PeerLost
StateDigests sum_over_ranks(World& world, const StateDigests& own);

}  // namespace xt
