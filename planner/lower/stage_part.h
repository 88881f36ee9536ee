#pragma once

// The part of a model that one stage of a pipeline has. Private to lower/.

#include <cstddef>
#include <vector>

#include "costmodel/ir/pipeline.h"

namespace xt {

/// Consecutive layers, by position in their stage.
struct ChunkLayers {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ChunkLayers&) const = default;
};

/// What a stage has beside its graph of layers.
struct StagePart {
  std::vector<ChunkLayers> chunks;
  std::vector<bool> recomputes;   ///< by layer of the stage
  bool has_embedding = false;     ///< the first stage, in its first chunk
  bool has_head = false;          ///< the last stage, in its last chunk
  bool shares_embedding = false;  ///< its embedding or head is a copy of what the other has
  std::vector<ChunkPair> pairs;   ///< that run at once, their sections not known yet

  bool operator==(const StagePart&) const = default;
};

}  // namespace xt
