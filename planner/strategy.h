#pragma once

// Everything a user may choose about a training step, resolved to numbers. What the numbers mean
// for a step is decided by the engine's rules and by lowering, not here.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/models/decoder.h"
#include "costmodel/units/dtype.h"
#include "planner/recompute_ops.h"

namespace xt {

/// How parameters are updated: all by AdamW, or matrices of layers by Muon.
enum class Optimizer : std::uint8_t { adamw, muon };

inline constexpr std::array<std::string_view, 2> optimizer_names = {"adamw", "muon"};

/// The spellings of an optimizer.
constexpr const auto& enum_names(Optimizer) { return optimizer_names; }

/// In which order micro-batches go through the chunks of a pipeline's stages: see lower/pipeline.h.
enum class ChunkOrder : std::uint8_t { one_forward_one_backward, zero_bubble };

inline constexpr std::array<std::string_view, 2> chunk_order_names = {"1f1b", "zero_bubble"};

/// The spellings of an order of chunks.
constexpr const auto& enum_names(ChunkOrder) { return chunk_order_names; }

/// One training step as its user decides it.
struct Strategy {
  std::string engine = "xt_run";
  std::int64_t ranks = 1;
  std::int64_t expert_parallel = 1;
  bool has_balance_loss = false;       ///< of routers
  std::int64_t sequence_parallel = 1;  ///< ranks that share a pack by heads, adjacent
  std::int64_t context_parallel = 1;   ///< ranks, or groups of those, that share it by tokens
  ContextExchange context_exchange = ContextExchange::all_gather;
  std::int64_t tensor_parallel = 1;      ///< ranks that share each product, adjacent
  bool tensor_sequence_parallel = true;  ///< those ranks share norms and residuals by tokens
  bool tensor_parallel_overlap = false;  ///< their exchanges run in pieces beside products
  bool communication_overlap = true;     ///< else exchanges run alone, see Lowering::lane_of
  std::int64_t pipeline_parallel = 1;    ///< stages, each of layers of its own on ranks of its own
  std::int64_t virtual_stages = 1;       ///< chunks of layers of a stage: interleaved 1F1B
  ChunkOrder pipeline_schedule = ChunkOrder::one_forward_one_backward;
  std::vector<std::int64_t> pipeline_layers = {};  ///< by part of the model; none: the engine's cut
  double offload_share = 0;  ///< of what a chunk keeps, in host memory until its backward pass
  std::int64_t zero = 3;  ///< stage of ZeRO: what data-parallel ranks split, see lower/stages.cpp
  std::int64_t pack_length = 0;          ///< tokens of one pack
  std::int64_t sample_length = 0;        ///< the most tokens of a sample in it
  std::int64_t sum_squared_lengths = 0;  ///< of a pack's samples; 0: all as long as they may be
  Dispatch dispatch = Dispatch::all_to_all;
  bool expert_parallel_overlap = false;  ///< exchanges behind another micro-step, lower/pairs.cpp
  double routing_imbalance = 1;          ///< rows of the rank with most over the mean of the ranks
  std::int64_t gradient_accumulation = 1;
  std::int64_t intra_layer_micro_batches = 1;  ///< packs that go through each layer in lock-step
  std::int64_t shard_ranks = 0;  ///< ranks that parameters are split over, repeated; 0: all (HSDP)
  bool reshards_layers = true;   ///< gathers a layer again for its backward pass
  bool memory_efficient_linear = true;  ///< else what was gathered is only referenced meanwhile
  bool returns_logits = false;          ///< in fp32, beside those that the loss is of
  std::int64_t recompute_layers = 0;    ///< the first so many layers
  RecomputeOps recompute_ops = {};      ///< of those layers
  bool stops_early = true;              ///< recomputes up to the last op that a backward reads
  std::int64_t swap_layers = 0;         ///< the first so many layers; never more than recomputed
  Optimizer optimizer = Optimizer::adamw;
  bool swaps_optimizer = false;      ///< AdamW's two moments wait in host memory
  bool offloads_optimizer = false;   ///< weights and moments in fp32 are the host's, and the update
  bool offloads_parameters = false;  ///< so are a rank's 16-bit shards between gathers
  std::int64_t loss_chunk = 0;       ///< tokens per chunk of the loss; loss_tokens() when whole
  DType compute_dtype = DType::fp32;
  bool has_fp8_products = false;  ///< of linear layers and experts
  Fp8Recipe fp8_recipe = Fp8Recipe::blockwise;
  bool gathers_fp8 = false;          ///< below stage 3 of ZeRO: 8-bit weights, not 16-bit ones
  DType reduce_dtype = DType::fp32;  ///< of gradients on the wire
  std::int64_t reduce_bucket = 0;    ///< elements of the buffer in which gradients are put together
  bool is_compiled = true;           ///< see GraphOptions
  bool compiles_loss = false;        ///< of logits in 16 bits, widened where they are read
  bool fuses_experts = true;         ///< see GraphOptions
  bool fuses_attention = true;       ///< see GraphOptions; else samples are equally long

  bool operator==(const Strategy&) const = default;

  /// Ranks that share a pack.
  std::int64_t ranks_of_pack() const {
    return sequence_parallel * context_parallel * tensor_parallel;
  }
  /// Tokens of one pack that a rank's products see.
  std::int64_t product_tokens() const {
    return pack_length / (sequence_parallel * context_parallel);
  }
  /// Tokens of one pack whose residuals a rank has.
  std::int64_t rank_tokens() const {
    return product_tokens() / (tensor_sequence_parallel ? tensor_parallel : 1);
  }
  /// Tokens that one loss of a rank sees.
  std::int64_t loss_tokens() const { return product_tokens() * intra_layer_micro_batches; }
  /// Packs of one rank in one step.
  std::int64_t packs_per_rank() const { return gradient_accumulation * intra_layer_micro_batches; }
  /// Tokens of all ranks in one step.
  std::int64_t tokens_per_step() const { return data_parallel() * pack_length * packs_per_rank(); }
  /// Ranks of one pipeline stage.
  std::int64_t stage_ranks() const { return ranks / pipeline_parallel; }
  /// Ranks of a stage that have packs of their own.
  std::int64_t data_parallel() const { return stage_ranks() / ranks_of_pack(); }
  /// Copies of the sharded parameters.
  std::int64_t replicas() const { return shard_ranks == 0 ? 1 : ranks / shard_ranks; }
};

}  // namespace xt
