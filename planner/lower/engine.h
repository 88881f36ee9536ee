#pragma once

// The rules by which an engine turns a strategy into a step: what it shards over whom, which copies
// it makes, what it keeps, what it recomputes. One row per engine; lowering reads only these.

#include <span>
#include <string_view>
#include <vector>

#include "costmodel/ir/schedule_builder.h"

namespace xt {

/// How logits become gradients: in place, chunk by chunk through autograd in fp32 with gradients
/// added up, or all at once through autograd in fp32.
enum class LossKind : std::uint8_t { in_place, fp32_chunks, fp32_whole };

/// Which cuts of a model's layers into parts an engine takes from its user: none; layers of each
/// stage, of one chunk; of each chunk; also chunks without a layer at both ends of the model.
enum class HandCut : std::uint8_t { none, stages, chunks, bare_ends };

/// One engine.
struct EngineRules {
  std::string_view name;
  std::string_view summary;
  bool is_executed = false;              ///< xt-run can run its schedules: see BlockRules
  DType compute_dtype = DType::bf16;     ///< where the strategy does not say
  bool shards_dense_over_world = true;   ///< else over the ranks of one expert-parallel index
  bool gathers_wide = false;             ///< in fp32; products read a cast of what is gathered
  bool copies_gathered = false;          ///< gathers into a flat buffer, then copies out
  bool copies_gradients = false;         ///< copies gradients into the reduce-scatter's own input
  std::int64_t further_copies = 0;       ///< of gradients at stage 3, read and written again
  bool reduces_through_scratch = false;  ///< sums of parts and exchanges of heads need a buffer
  bool reduces_behind_gathers = false;   ///< both on one communicator, which runs one at a time
  bool prefetches_head = true;           ///< gathers the head while the last layer runs
  bool keeps_last_dense_layer = true;    ///< does not reshard the last layer, if it has no experts
  bool keeps_last_sparse_layer = true;   ///< does not reshard the last layer, if it has experts
  bool recomputes_last_sparse_layer = true;
  bool keeps_sparse_head = false;          ///< lm_head of a routed model is not resharded
  bool gathers_embedding_twice = false;    ///< also before its backward, which needs no weight
  bool recomputes_whole_layer = false;     ///< also ops whose results the backward does not read
  bool recomputes_to_end = false;          ///< so, unless told, where no compiler sees the layer
  bool swaps_dense = true;                 ///< swaps inputs of layers without experts
  bool swaps_after_layer = false;          ///< starts a copy when the layer has run, not before
  bool hides_exchange = true;              ///< see GraphOptions
  bool fuses_gate_up = true;               ///< see GraphOptions
  bool fuses_swiglu = true;                ///< see GraphOptions
  bool weighs_activations = false;         ///< see GraphOptions
  bool routes_op_by_op = false;            ///< see GraphOptions
  bool joins_projections = false;          ///< see GraphOptions
  bool joins_gradients = false;            ///< see GraphOptions
  bool sums_branches = false;              ///< see GraphOptions; so do kernels op by op
  bool puts_heads_first = false;           ///< see GraphOptions
  bool repeats_key_heads = false;          ///< see GraphOptions
  bool stacks_heads = false;               ///< see GraphOptions
  bool has_unfused_attention = false;      ///< can make scores tensors: see GraphOptions
  std::int64_t longest_fused_softmax = 0;  ///< see GraphOptions
  bool fuses_scaled_rotary = true;         ///< see GraphOptions
  bool widens_norms = false;               ///< see GraphOptions
  bool widens_residuals = false;           ///< see GraphOptions
  bool has_eager_kernels = false;          ///< can run without a compiler: see GraphOptions
  bool pools_by_stream = false;  ///< gathers and reductions take memory on streams of their own
  bool keeps_read_head = false;  ///< gathered all the time where a kernel of the loss reads it
  bool keeps_root = false;   ///< embedding and head are one unit, gathered for a whole micro-step
  bool drops_by_op = false;  ///< can recompute some ops of a layer
  bool keeps_attended = false;          ///< keeps outputs of attention that alone is recomputed
  bool holds_outputs = false;           ///< logits, keys and values, see lower/held_outputs.cpp
  bool reduces_replicas_again = false;  ///< HSDP: sums over replicas once more before the update
  bool sends_copies = false;            ///< can send a token once per rank: Dispatch::deep_ep
  bool predicts_further = false;        ///< has layers for further tokens: further_tokens.cpp
  bool pairs_micro_steps = false;       ///< one forward while another runs backward, see pairs.cpp
  std::int64_t agrs_ranks = 0;          ///< that Dispatch::agrs gathers tokens of; 0: never does
  bool runs_in_lock_step = false;       ///< several packs go through each layer together
  bool has_fp8_products = false;
  bool has_transformer_engine = false;     ///< products in fp8 by its recipes, exchanges in pieces
  bool splits_sequences = false;           ///< Ulysses
  bool splits_context = false;             ///< context parallelism: packs are shared by tokens
  bool replicates = false;                 ///< HSDP
  bool splits_tensors = false;             ///< tensor parallelism
  bool splits_tensors_of_experts = false;  ///< also in models with experts, which stay whole
  bool overlaps_tensor_parallel = false;   ///< see GraphOptions
  bool exchanges_in_pieces = false;        ///< can cut exchanges: Strategy::tensor_parallel_overlap
  bool overlaps_nothing = false;           ///< exchanges run between products, where they stand
  bool may_overlap_nothing = false;        ///< see Strategy::communication_overlap
  bool copies_shared_tokens = false;       ///< see GraphOptions
  bool has_pipelines = false;              ///< stages of layers, see lower/pipeline.h
  bool interleaves_chunks = false;         ///< of a stage, where it has several
  bool balances_stages = false;            ///< see balanced_stages()
  bool splits_backward = false;            ///< can: ChunkOrder::zero_bubble
  HandCut hand_cut = HandCut::none;        ///< see Strategy::pipeline_layers
  bool offloads_chunks = false;            ///< keeps some of a chunk on the host: lower/offload.cpp
  bool splits_transfers = false;           ///< tensor parallel ranks send a part each to a stage
  bool reduces_at_end = false;   ///< gradients, when nothing is left to compute: lower/stages.cpp
  std::int64_t least_zero = 3;   ///< the lowest stage of ZeRO, see lower/stages.cpp
  std::int64_t most_zero = 3;    ///< the highest one
  bool keeps_only_sums = false;  ///< at stage 1 a single micro-step's gradients are split
  bool keeps_narrow_shards = false;      ///< 16-bit weights beside fp32 ones; gradients as reduced
  bool may_keep_references = false;      ///< see Strategy::memory_efficient_linear
  bool may_return_logits = false;        ///< see Strategy::returns_logits
  bool keeps_gradient_shards = false;    ///< at stage 3, from step to step
  bool sums_from_zero = false;           ///< kept gradients are cleared, and all micro-steps add
  bool accumulates_in_products = false;  ///< products of weight gradients add to them
  bool keeps_stand_ins = false;          ///< for gradients so added, see lower/stand_ins.cpp
  bool adds_after_backward = false;      ///< a micro-step's gradients are added when all are made
  bool has_gradient_buckets = false;     ///< 16-bit copies to reduce; with split state at the end
  bool all_reduces_gradients = false;    ///< kept ones, over all ranks, also where state is split
  bool gathers_in_forward = false;  ///< updated weights behind the next forward, not the update
  bool broadcasts_weights = false;  ///< after the update, a message a rank: lower/broadcasts.cpp
  bool chunks_loss = true;          ///< else lm_head and loss are whole
  LossKind loss = LossKind::in_place;
  bool has_loss_op_by_op = false;     ///< that of whole logits is not fused
  bool may_compile_loss = false;      ///< see Strategy::compiles_loss
  bool widens_compiled_loss = false;  ///< its logits and their gradient are in fp32
  bool has_liger_loss = false;        ///< what is compiled of a loss is Liger's, as activations are
  std::int64_t logged_metrics = 0;    ///< cross-entropies of a micro-step, beside its loss
  bool scores_logits = false;         ///< accuracy and perplexity before the loss
  bool logs_tokens = false;           ///< entropy and accuracy of whole logits, which it waits for
  bool sums_loss_op_by_op = false;    ///< over tensor ranks, whose sums part it into ops
  bool pools_narrow_logits = false;   ///< their room is of no use to what is in fp32
  bool updates_op_by_op = false;      ///< AdamW without a fused kernel
  bool updates_all_at_once = false;   ///< op by op, each over all parameters
  bool updates_on_host = false;       ///< can leave weights, moments and the update to the host
  DType reduce_dtype = DType::bf16;   ///< of gradients, where the strategy does not say
  bool swaps_optimizer = false;       ///< can keep AdamW's moments on the host
  bool has_muon = false;              ///< Muon for the matrices of layers
  std::int64_t reduce_bucket = 0;     ///< see Strategy; 0: gradients are reduced unit by unit
  /// Buckets of stage 3 whose reductions may be in flight: see lower/reductions_in_flight.cpp.
  std::int64_t reductions_in_flight = 0;
  std::int64_t optimizer_copies = 0;  ///< temporaries of a parameter's shard in its update

  /// Whether what runs again ends with the last op that a backward pass reads, unless told.
  constexpr bool stops_early() const { return !recomputes_whole_layer && !recomputes_to_end; }

  /// Temporaries of one kernel call that are alive at once, appended to the list.
  void (*workspaces)(const Work& work, std::vector<WorkspaceSpec>& list) = nullptr;
};

/// All engines.
std::span<const EngineRules> engines();

/// The row called `name`; null if there is none.
const EngineRules* engine_named(std::string_view name);

/// Temporaries of xt_run's kernels.
///
/// Source:  executor/kernels; each is held to this by a test that counts real allocations
void xt_run_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

/// Temporaries of XTuner V1's kernels, as far as they matter at the peak.
///
/// Source:  XTuner V1 (InternLM/xtuner, b934f4620), loss/chunk_loss.py and ops/moe
void xtuner_v1_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

/// Temporaries of PyTorch's cross-entropy in fp32: log-softmax and its gradient.
///
/// Source:  PyTorch, log_softmax and its backward are not in place
void torchtitan_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

/// Temporaries of the same where each op of it has a tensor of its own: also exponentials.
///
/// Source:  PyTorch, torch/_decomp/decompositions.py, nll_loss_backward and
///          _log_softmax_backward_data, as torchtitan's graph_trainer/decompositions.py applies
///          them
void decomposed_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

/// Temporaries of nanotron's cross-entropy: logits less their largest, in fp32.
///
/// Source:  nanotron 0.5, parallel/tensor_parallel/functional.py
void nanotron_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

/// None: kernels whose temporaries do not matter at the peak.
void no_workspaces(const Work& work, std::vector<WorkspaceSpec>& list);

}  // namespace xt
