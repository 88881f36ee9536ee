#pragma once

// What a checkpoint copies of a file that grows while the run goes on.

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "executor/checkpoints/element_digest.h"

namespace xt {

/// The beginning of the file at `path`, by its length and digest. However long a run is, its lines
/// are on disk alone.
struct WrittenLines {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint64_t digest = text_digest({});

  /// Counts `text`, which was written behind what is counted.
  void add(std::string_view text) {
    bytes += text.size();
    digest = text_digest(text, digest);
  }
};

}  // namespace xt
