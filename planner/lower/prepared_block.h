#pragma once

// What every layer of one block shares when it is written: where its parameters lie, which of its
// values mean what, and the works of its ops. Private to lower/.

#include <array>
#include <vector>

#include "costmodel/ir/op_graph.h"
#include "costmodel/ir/schedule_builder.h"
#include "planner/lower/layout.h"
#include "planner/recompute_ops.h"

namespace xt {

/// An op of a block. Its work is found when the op is first written, and again for every layer if
/// it names a symbol of the layer or of the micro-batch.
struct PreparedOp {
  const GraphOp* graph = nullptr;
  bool varies = false;         ///< by layer or micro-batch
  bool is_recomputed = false;  ///< before a backward pass that finds only what is recorded
  bool is_known = false;       ///< `work` and `workspaces` are
  WorkId work{};
  std::vector<WorkspaceSpec> workspaces;
};

/// Marks a value that a block does not have.
inline constexpr ValueId no_value{0xffff};

/// A block with what lowering asks of it again and again.
struct PreparedBlock {
  const Block* graph = nullptr;
  std::array<FlatLayout, 3> layouts;  ///< by FlatKind
  ValueId input = no_value;
  ValueId output = no_value;
  ValueId input_gradient = no_value;
  ValueId output_gradient = no_value;
  ValueId next_embedding_gradient = no_value;
  std::vector<bool> is_kept;       ///< by value: of a recomputed layer, not dropped either
  std::vector<bool> is_saved;      ///< by value: kept from the forward pass for the backward pass
  std::vector<bool> is_exchanged;  ///< by value: written by an exchange between ranks
  std::vector<PreparedOp> forward;
  std::vector<PreparedOp> backward;
  /// Ends of the runs of ops that one micro-batch executes before the next one takes its turn.
  std::vector<std::size_t> forward_turns;
  std::vector<std::size_t> backward_turns;
};

/// Over how many ranks the parameters outside experts are split, and those of experts.
struct ShardRanks {
  std::int64_t dense = 1;
  std::int64_t experts = 1;
};

/// An engine's rules of a block: what a recomputed layer keeps although the ops that make it run
/// again, and how micro-batches in lock-step take turns.
struct BlockRules {
  bool keeps_recorded = true;   ///< recorded values, where all ops run again
  bool keeps_attended = false;  ///< outputs of attention, where attention alone does
  /// Each micro-batch learns symbols of its own, and hands over behind each exchange: its compute
  /// is done when the issuing thread gets there, so that an exchange begins as soon as it may.
  bool is_executed = false;
  bool has_matrices_apart = false;  ///< matrices outside experts are split and updated apart
};

/// `block` of `graph` prepared to be computed in its dtype, with `dropped` results of ops where a
/// layer is recomputed.
///
/// Assumes: `block` outlives the result
PreparedBlock prepared(const OpGraph& graph, const Block& block, const ShardRanks& ranks,
                       const RecomputeOps& dropped, const BlockRules& rules);

}  // namespace xt
