#pragma once

// What a rank keeps from one step to the next, as its part of a checkpoint: stretches of fp32
// weights and moments by published names and positions, so that ranks of another layout find
// theirs.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/checkpoints/checkpoint_file.h"
#include "executor/train/parameters.h"

namespace xt {

/// A number of each of `state_names`.
using StateDigests = std::array<std::uint64_t, state_names.size()>;

/// The names in `state_names` of which `schedule` keeps something, by index. Muon keeps no mean
/// squares of matrices.
std::vector<std::size_t> kept_states(const Schedule& schedule);

/// The folders of `checkpoint` that hold the state, by index into `state_names`.
using StateFiles = std::map<std::size_t, Weights>;

/// Opens the state in `checkpoint`, of which `file` says what there is.
///
/// Throws: InputError if a file is missing or damaged
StateFiles open_state(const std::filesystem::path& checkpoint, const CheckpointFile& file);

/// The digests of all that `files` hold.
StateDigests digests_of(const StateFiles& files);

/// The folder of `file` that `digests` do not fit, in a sentence; empty if they fit.
std::string difference(const CheckpointFile& file, const StateDigests& digests);

/// Throws: InputError unless `files` hold the state of `schedule`, and no more
void check_state(const Schedule& schedule, const StateFiles& files,
                 const std::filesystem::path& checkpoint);

/// Reads the state of `rank`; returns the digests of what this rank would have written.
StateDigests load_state(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                        const StateFiles& files);

/// A copy of a rank's state in host memory, and how it is written.
class StateSnapshot {
 public:
  /// Assumes: `schedule` outlives the snapshot
  StateSnapshot(const Schedule& schedule, std::int32_t rank);

  /// Copies what `memory` holds; takes memory the first time only.
  void take(const BufferMemory& memory);

  /// Makes the files of all ranks below `checkpoint`, still without elements. One rank does.
  ///
  /// Throws: InputError; std::system_error
  void begin(const std::filesystem::path& checkpoint);
  /// Writes what this rank has and returns its digests; on return it is on disk. Of ranks that hold
  /// the same the first writes.
  ///
  /// Assumes: begin() was called by some rank
  /// Throws:  std::system_error
  StateDigests write(const std::filesystem::path& checkpoint);
  /// Gives the files their names. The rank that began does, when all have written.
  void publish();

 private:
  std::unique_ptr<WeightsFolder> folder(const std::filesystem::path& checkpoint,
                                        std::size_t state) const;
  bool is_written(const Flat& flat, std::size_t state) const;

  const Schedule& schedule_;
  std::int32_t rank_ = 0;
  std::vector<std::size_t> states_;
  std::vector<Stretch> stretches_;
  std::array<std::vector<std::vector<float>>, state_names.size()> shards_;  ///< by flat
  std::vector<std::unique_ptr<WeightsFolder>> begun_;
};

}  // namespace xt
