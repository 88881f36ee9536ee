#pragma once

// The file `checkpoint.json` of a checkpoint, written last: where the run stood, and digests of all
// that lies beside it. A folder without it, or that it does not fit, is no checkpoint.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "costmodel/document/reader.h"
#include "executor/data/pack_feed.h"

namespace xt {

inline constexpr std::string_view checkpoint_schema = "xt.checkpoint/2";
inline constexpr std::string_view checkpoint_file_name = "checkpoint.json";
inline constexpr std::string_view checkpoint_metrics_name = "metrics.jsonl";

/// The folders of a checkpoint: fp32 weights, AdamW's mean gradient or Muon's momentum, and AdamW's
/// mean squared gradient, each as published weights are, by the same names.
inline constexpr std::array<std::string_view, 3> state_names = {"weights", "exp_avg", "exp_avg_sq"};

/// What decides which tokens are in a pack of a number. A run goes on with the same.
struct DataIdentity {
  std::int64_t seed = 0;
  std::int64_t pack_length = 0;
  std::int64_t sample_length = 0;
  PackLevel pack_level = PackLevel::hard;
  bool groups_by_length = true;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;

  bool operator==(const DataIdentity&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("seed", seed, "Of the order of packs").at_least(0);
    archive.field("pack_length", pack_length, "Tokens of a pack").at_least(1);
    archive.field("sample_length", sample_length, "Tokens of a sample").at_least(1);
    archive.field("pack_level", pack_level, "How packs are filled");
    archive.field("groups_by_length", groups_by_length, "Whether like packs run at once");
    archive.field("documents", documents, "Documents of the data").at_least(0);
    archive.field("tokens", tokens, "Tokens of the data").at_least(0);
  }
};

/// How far a run has come.
struct RunPosition {
  std::int64_t step = 0;  ///< the last that is done
  std::int64_t n_updates =
      0;  ///< steps that were not skipped: AdamW's bias correction counts these
  std::int64_t next_pack = 0;  ///< of all ranks together, the first that nobody has seen

  bool operator==(const RunPosition&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("step", step, "The last step that is done").at_least(1);
    archive.field("n_updates", n_updates, "Steps that were not skipped").at_least(0);
    archive.field("next_pack", next_pack, "The first pack that nobody has seen").at_least(0);
  }
};

/// The content of `checkpoint.json`.
struct CheckpointFile {
  std::string schema{checkpoint_schema};
  RunPosition position;
  DataIdentity data;
  DataEpoch epoch;                   ///< that the run is in
  Named<std::string> state_digests;  ///< by folder, sums of element_digest()
  std::string metrics_digest;        ///< of the lines of all steps so far
  std::string digest;                ///< of this file without it

  bool operator==(const CheckpointFile&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of this file");
    archive.field("position", position, "How far the run has come");
    archive.field("data", data, "Which data it has seen");
    archive.field("epoch", epoch, "Which epoch it is in");
    archive.field("state_digests", state_digests, "Digest of each folder");
    archive.field("metrics_digest", metrics_digest, "Digest of the numbers of all steps so far");
    archive.field("digest", digest, "Digest of this file without it");
  }
};

/// `file`, its own digest filled in, as text.
std::string checkpoint_text(CheckpointFile file);

/// What checkpoint.json in `folder` says.
///
/// Throws: InputError when there is none, or it is damaged or of another format
CheckpointFile read_checkpoint_file(const std::filesystem::path& folder);

}  // namespace xt
