#pragma once

// What a lowering keeps account of: units and their buffers, runs of blocks, micro-batches, and the
// parts of a step that are not of the model. Private to lower/.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/ir/schedule_builder.h"
#include "planner/lower/prepared_block.h"

namespace xt {

/// One flat buffer of one unit (embedding, decoder layer, head) and its present instances.
struct UnitFlat {
  const FlatLayout* layout = nullptr;
  Group group = Group::shard;         ///< ranks that split weights and moments
  Group reduces_over = Group::shard;  ///< ranks that gradients are summed over
  std::int64_t shard_elements = 0;
  std::int64_t adamw_elements = 0;  ///< of the shard, those that AdamW updates
  std::int32_t flat = 0;            ///< index into Schedule::flats
  BufferId gathered = no_buffer;
  BufferId received = no_buffer;    ///< gathered, but not copied out yet
  BufferId wide = no_buffer;        ///< in fp32, what `gathered` is a cast of
  BufferId referenced = no_buffer;  ///< gathered for the forward pass and kept by its products
  BufferId gradient = no_buffer;
  BufferId gradient_shard = no_buffer;
  BufferId weights = no_buffer;     ///< in the graph's dtype, where every rank keeps them
  BufferId narrow = no_buffer;      ///< the shard in the graph's dtype, where it is kept so
  BufferId quantised = no_buffer;   ///< weights of fp8 products in fp8, made once a step
  BufferId transposed = no_buffer;  ///< weights in fp8 for products of input gradients
  bool is_stale = false;            ///< others' part of `weights` is as before the last update
  bool needs_quantising = false;    ///< the copies in fp8 are as before it
};

/// What FSDP gathers and reduces at once.
struct FsdpUnit {
  PreparedBlock* block = nullptr;
  std::int16_t layer = -1;
  std::vector<UnitFlat> flats;
};

/// The bias of one layer's router, and how many rows its experts got in this step.
struct RouterBias {
  std::int16_t layer = -1;
  std::int64_t experts = 0;
  BufferId bias = no_buffer;
  BufferId load = no_buffer;
};

/// A reduce-scatter that nothing has waited for yet.
struct PendingReduce {
  OpId op = no_op;
  BufferId reduced = no_buffer;  ///< to be added to the gradient shard, where it is not that itself
  UnitFlat* flat = nullptr;
  std::int16_t layer = -1;
};

/// What a reduction reads that nobody has waited for yet.
struct ReductionInFlight {
  std::array<BufferId, 2> read;  ///< gradients, and their copy
  std::int64_t elements = 0;
};

/// A gradient that is added to a kept one later.
struct PendingSum {
  BufferId addend = no_buffer;
  BufferId sum = no_buffer;
  std::int64_t elements = 0;
};

/// A tensor that a chunk keeps for its backward pass and has on the host in between, all of it or
/// its first `moved` elements.
struct OffloadedTensor {
  BufferId* kept = nullptr;  ///< where the backward pass finds it
  std::int64_t elements = 0;
  std::int64_t moved = 0;
  BufferId on_host = no_buffer;
  BufferId rest = no_buffer;      ///< what stays, where it is not all moved
  BufferId returned = no_buffer;  ///< what came back of it, where it was not all moved
};

/// What of a backward pass is written: all, or gradients of inputs or of weights alone.
enum class BackwardHalf : std::uint8_t { both, inputs, weights };

/// The product for the gradient of lm_head's weight, of a chunk of the loss, that is still to come.
struct HeadProduct {
  Origin from;
  std::int64_t rows = 0;
  BufferId d_logits = no_buffer;
  BufferId hidden = no_buffer;
  bool is_first = true;  ///< chunk
};

/// Consecutive ops of a block.
struct BlockPart {
  std::size_t begin = 0, end = 0;
};

/// The buffers of one run of a block, by value.
using Values = std::vector<BufferId>;

/// One run of a block: for which layer and micro-batch, in which phase, on which buffers.
struct BlockRun {
  PreparedBlock& block;
  Values& values;
  Phase phase = Phase::forward;
  std::int16_t layer = -1;
  std::int16_t micro_batch = 0;
  bool adds_gradients = false;  ///< another micro-batch has written the parameters' gradients
};

/// What a pack decides.
struct PackSymbols {
  SymbolId sum_squared_lengths{};
  SymbolId longest_sample{};
  SymbolId sample_tokens{};             ///< where routers count them
  std::vector<SymbolId> rows_received;  ///< by layer
};

/// What each of the micro-batches that go through the layers in lock-step has of its own.
struct MicroBatch {
  BufferId tokens = no_buffer;
  BufferId positions = no_buffer;
  BufferId boundaries = no_buffer;
  BufferId table = no_buffer;           ///< of rotary angles
  BufferId load = no_buffer;            ///< rows of each expert, where they are to be equal
  BufferId gradient = no_buffer;        ///< of the input of the layer run backward last
  BufferId next_embedding = no_buffer;  ///< of the tokens that layers behind the model's have seen
  /// Of what lm_head was given for each token but the last, which is in `gradient`.
  std::vector<BufferId> loss_gradients;
};

/// What a micro-batch left that runs backward while the next one runs forward.
struct PassedMicroBatch {
  std::vector<std::vector<Values>> kept;  ///< by layer
  std::vector<Values> embedding;
  std::vector<BufferId> inputs;
  BufferId gradient = no_buffer;  ///< of the input of the layer run backward last
};

/// How a rank comes by a whole matrix to orthogonalise: it has some; a few ranks gather one that
/// they share; each exchanges its parts of as many as there are ranks for one of them; or all
/// gather all and sum what each makes of one.
enum class MuonRoute : std::uint8_t { local, gather, exchange, gather_and_sum };

/// Matrices of one shape that Muon updates together. A tensor of experts is one matrix of as many
/// blocks, each orthogonalised on its own.
struct MuonBatch {
  std::vector<UnitFlat*> flats;  ///< one per matrix
  std::int64_t block_rows = 0;
  std::int64_t columns = 0;
  std::int64_t blocks = 1;  ///< of a matrix
  Group shard = Group::shard;
  Group within = Group::none;  ///< ranks that share a block of experts

  MuonRoute route = MuonRoute::local;
  std::int64_t shard_elements = 0;  ///< of all its matrices
  std::int64_t blocks_here = 1;     ///< that a rank orthogonalises
  BufferId update = no_buffer;      ///< as it stands: of shards, or of whole matrices
};

/// Parts of a step that are not of the model.
enum class StepPart : std::uint8_t {
  scalars,
  valid_tokens,
  section,
  rope_table,
  swap,
  all_gather,
  copy_out,
  padding,
  reduce_scatter,
  copy_in,
  accumulate,
  final_norm,
  lm_head,
  metrics,
  rescale,
  replicas,
  norm,
  muon,
  update,
  all_reduce,
  tensor_ranks,
  receive,
  router_bias,
  balance_loss,
  broadcast
};

inline constexpr std::array<std::string_view, 25> step_part_names = {
    "scalars",      "valid_tokens", "section",     "rope_table",     "swap",
    "all_gather",   "copy_out",     "padding",     "reduce_scatter", "copy_in",
    "accumulate",   "final_norm",   "lm_head",     "metrics",        "rescale",
    "replicas",     "norm",         "muon",        "update",         "all_reduce",
    "tensor_ranks", "receive",      "router_bias", "balance_loss",   "broadcast"};

}  // namespace xt
