#pragma once

// Tiny models with known losses, gradients and trained weights (tests/oracle), run by the executor
// under any layout.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/strategy.h"
#include "tests/executor/ranks.h"

namespace xt {

/// One model under one layout.
struct OracleCase {
  std::string model;
  std::int64_t ranks = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t gradient_accumulation = 1;
  std::int64_t loss_chunk = 48;
  std::int64_t recompute_layers = 0;
  std::int64_t swap_layers = 0;
  bool reshards_layers = true;
  std::int64_t sequence_parallel = 1;
  std::int64_t shard_ranks = 0;
  std::int64_t micro_batches = 1;  ///< in lock-step
  RecomputeOps recompute_ops = {};
  std::int64_t padding = 0;    ///< tokens behind each pack's samples
  bool is_as_on_gpus = false;  ///< by their kernels, in the order of streams

  /// Without blanks; unique.
  std::string name() const;
};

/// The variable that names a file for the digest of all that a run computed.
inline constexpr const char* digest_variable = "XT_TEST_DIGEST_FILE";

/// Trains `of` for five steps on this rank and requires losses within 1e-5, gradients and trained
/// weights within 1e-4 of their norm, and the memory of the schedule to the byte, where the
/// workspace of kernels is known.
void require_oracle(const OracleCase& of, Rendezvous& rendezvous, GlooNetwork& network);

}  // namespace xt
