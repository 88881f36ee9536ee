#pragma once

// Everything a user may choose about a training step, resolved to numbers. What the numbers mean
// for a step is decided by the engine's rules and by lowering, not here.

#include <cstdint>
#include <string>

#include "costmodel/units/dtype.h"

namespace xt {

/// One training step as its user decides it.
struct Strategy {
  std::string engine = "xt_run";
  std::int64_t ranks = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t pack_length = 0;    ///< tokens of one pack
  std::int64_t sample_length = 0;  ///< tokens of each sample in it
  std::int64_t gradient_accumulation = 1;
  std::int64_t recompute_layers = 0;  ///< the first so many layers
  std::int64_t swap_layers = 0;       ///< the first so many layers; never more than recomputed
  std::int64_t loss_chunk = 0;        ///< tokens per chunk of the loss; pack_length when whole
  DType compute_dtype = DType::fp32;

  bool operator==(const Strategy&) const = default;

  /// Tokens of all ranks in one step.
  std::int64_t tokens_per_step() const { return ranks * pack_length * gradient_accumulation; }
};

}  // namespace xt
