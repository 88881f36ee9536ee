#pragma once

// The folder that holds a run's checkpoints, one folder a step. One under way has a temporary name,
// one that goes is given such a name first: a folder called `step-…` is whole or damaged, never
// half-written. Knows nothing of what a checkpoint holds but checkpoint.json.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "executor/checkpoints/checkpoint_file.h"
#include "executor/checkpoints/written_lines.h"

namespace xt {

/// Names and lives of the checkpoints in a folder.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// The checkpoint of `step`.
  [[nodiscard]] std::filesystem::path path(std::int64_t step) const;
  /// Where it is while it is written.
  [[nodiscard]] std::filesystem::path temporary(std::int64_t step) const;
  /// The steps of all checkpoints, the latest first; none where there is no folder.
  [[nodiscard]] std::vector<std::int64_t> steps() const;

  /// Takes away what runs that were killed have left under temporary names.
  ///
  /// Throws: std::system_error; all that follow do
  void clear() const;
  /// Makes the folder in which the checkpoint of `step` is written.
  void begin(std::int64_t step) const;
  /// Gives what was written for `file` its name, once all of it and a copy of `metrics` are on
  /// disk.
  ///
  /// Assumes: files of the state have been flushed
  void publish(const CheckpointFile& file, const WrittenLines& metrics) const;
  /// Takes every checkpoint away but those of `steps`.
  void keep_only(std::span<const std::int64_t> steps) const;

 private:
  void retire(std::int64_t step) const;

  std::filesystem::path folder_;
};

}  // namespace xt
