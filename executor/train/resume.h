#pragma once

// Where a run may go on: the checkpoints that look whole, the latest first. Their elements are held
// to their digests when they are read.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "costmodel/ir/schedule.h"
#include "executor/checkpoints/checkpoint_store.h"
#include "executor/train/training_state.h"

namespace xt {

/// A checkpoint that looks whole: nothing is missing, all headers are good.
struct FoundCheckpoint {
  std::filesystem::path path;
  CheckpointFile file;
  StateFiles state;
  std::string metrics;  ///< lines of the steps up to it
};

/// The checkpoints of a folder.
struct FoundCheckpoints {
  std::vector<FoundCheckpoint> whole;  ///< the latest first
  std::vector<std::string> damaged;    ///< a sentence each
};

/// Looks through `store`.
FoundCheckpoints find_checkpoints(const CheckpointStore& store);

/// Throws: InputError unless a run of `steps` steps by `schedule` on `data` can go on from `found`
void check_resumable(const FoundCheckpoint& found, const Schedule& schedule,
                     const DataIdentity& data, std::int64_t steps);

/// What is said of a checkpoint in `folder` that is not to be used because of `reason`.
std::string damage_note(const std::filesystem::path& folder, const std::string& reason);

/// The refusal to go on from `store`, where what was found is all damaged or nothing.
[[noreturn]] void refuse_to_resume(const CheckpointStore& store, const FoundCheckpoints& found);

}  // namespace xt
