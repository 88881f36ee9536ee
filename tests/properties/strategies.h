#pragma once

// Random small models and strategies, over every family and engine, for the laws.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "planner/lower/balanced_stages.h"
#include "planner/lower/engine.h"
#include "planner/lower/lower.h"
#include "planner/lower/pipeline.h"

namespace xt::test {

/// One drawn case; printed when a law fails.
struct Case {
  Architecture model;
  Strategy strategy;

  OpGraph graph() const { return build_decoder(model, graph_options(strategy)); }
  Schedule schedule() const { return lower(graph(), strategy); }
  PipelineSchedule pipeline() const { return lower_pipeline(graph(), strategy); }

  std::string text() const {
    return fmt::format(
        "{} {} layers {} tied {} ranks {} ep {} by {} sp {} cp {} {} shards {} lock-step {} pack "
        "{} "
        "sample {} accumulation {} recompute {} swap {} chunk {} {} {} compiled {} experts fused "
        "{} drops {} "
        "tp {} tokens shared {} in pieces {} zero {} pp {} of {} by {} layers {} fp8 {} {} "
        "gathered {} "
        "pairs {} attention fused {} dropped {} offloaded {} state on the host {} weights {} "
        "exchanges overlap {} references {} loss compiled {} routers balanced {} "
        "bucket {} further tokens {} recompute stops early {} logits returned {}",
        strategy.engine, model.model_type, model.num_hidden_layers, model.tie_word_embeddings,
        strategy.ranks, strategy.expert_parallel,
        dispatch_names[static_cast<std::size_t>(strategy.dispatch)], strategy.sequence_parallel,
        strategy.context_parallel,
        context_exchange_names[static_cast<std::size_t>(strategy.context_exchange)],
        strategy.shard_ranks, strategy.intra_layer_micro_batches, strategy.pack_length,
        strategy.sample_length, strategy.gradient_accumulation, strategy.recompute_layers,
        strategy.swap_layers, strategy.loss_chunk, name(strategy.compute_dtype),
        optimizer_names[static_cast<std::size_t>(strategy.optimizer)], strategy.is_compiled,
        strategy.fuses_experts, strategy.recompute_ops.text(), strategy.tensor_parallel,
        strategy.tensor_sequence_parallel, strategy.tensor_parallel_overlap, strategy.zero,
        strategy.pipeline_parallel, strategy.virtual_stages,
        chunk_order_names[static_cast<std::size_t>(strategy.pipeline_schedule)],
        fmt::join(strategy.pipeline_layers, "+"), strategy.has_fp8_products,
        fp8_recipe_names[static_cast<std::size_t>(strategy.fp8_recipe)], strategy.gathers_fp8,
        strategy.expert_parallel_overlap, strategy.fuses_attention, model.has_attention_dropout,
        strategy.offload_share, strategy.offloads_optimizer, strategy.offloads_parameters,
        strategy.communication_overlap, !strategy.memory_efficient_linear, strategy.compiles_loss,
        strategy.has_balance_loss, strategy.reduce_bucket, model.further_tokens,
        strategy.stops_early, strategy.returns_logits);
  }
};

inline Architecture draw_model(std::mt19937& random, const Family& family) {
  const auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; };
  Architecture model;
  model.model_type = family.model_type;
  model.vocab_size = 32 * up_to(8);
  model.num_key_value_heads = up_to(3);
  model.num_attention_heads = model.num_key_value_heads * up_to(3);
  model.head_dim = 8 * up_to(3);
  model.hidden_size = 16 * up_to(6);
  model.intermediate_size = 16 * up_to(8);
  model.num_hidden_layers = up_to(5);
  family.shape(model);
  if (family.is_gpt) {
    model.position = random() % 2 == 0 ? Position::learned : Position::biased;
    model.max_position_embeddings = 32 * up_to(8);
  }
  if (family.has_biases) model.has_dropout = random() % 2 == 0;
  model.has_attention_dropout = false;  // fused kernels have none; see draw_attention
  model.tie_word_embeddings = random() % 2 == 0;
  if (family.chooses_norms_and_biases) {
    model.has_qk_norm = random() % 2 == 0;
    model.has_qkv_bias = random() % 2 == 0;
  }
  if (family.full_attention_every > 0) model.sliding_window = 4 * up_to(8);
  if (family.has_shared_experts && !family.has_mla) model.rotary_size = model.head_dim / 4 * 2;
  if (family.has_mla) {
    model.q_lora_rank = 16 * (up_to(4) - 1);
    model.kv_lora_rank = 16 * up_to(3);
    model.qk_rope_head_dim = 8;
    model.v_head_dim = 8 * up_to(2);
    model.head_dim = 8 + 8 * up_to(3);
    model.num_key_value_heads = model.num_attention_heads;
  }
  if (family.has_shared_experts) {
    model.n_shared_experts = up_to(3) - 1;
    model.first_k_dense_replace = up_to(3) - 1;
  }
  if (!family.has_experts) return model;
  model.num_experts = 4 * up_to(3);
  model.num_experts_per_tok = up_to(3);
  model.moe_intermediate_size = 16 * up_to(4);
  model.decoder_sparse_step = family.has_shared_experts ? 1 : up_to(2);
  return model;
}

// Heads and packs are made to divide over as many ranks as share each product.
inline void draw_tensor_parallel(std::mt19937& random, const EngineRules& engine, Case& drawn) {
  Strategy& s = drawn.strategy;
  const bool is_moe = drawn.model.is_moe();
  if (!engine.splits_tensors || drawn.model.has_mla() || drawn.model.has_wide_qk_norm ||
      s.shard_ranks > 0)
    return;
  if (is_moe && !engine.splits_tensors_of_experts) return;
  const std::int64_t rest = s.ranks / s.ranks_of_pack();
  s.tensor_parallel = rest % 4 == 0 ? 4 : rest % 2 == 0 ? 2 : 1;
  s.tensor_sequence_parallel = is_moe || random() % 3 > 0;
  drawn.model.num_attention_heads *= s.tensor_parallel;
  drawn.model.num_key_value_heads *= s.tensor_parallel;
  s.pack_length *= s.tensor_parallel;
}

// Scores as tensors want samples of one length, of which a rank has all tokens.
inline void draw_attention(std::mt19937& random, const EngineRules& engine, Case& drawn) {
  Strategy& s = drawn.strategy;
  const bool may_be = engine.has_unfused_attention && !drawn.model.has_mla() &&
                      drawn.model.sliding_window == 0 && s.context_parallel == 1 &&
                      s.sequence_parallel == 1;
  s.fuses_attention = !may_be || random() % 2 == 0;
  if (s.fuses_attention) return;
  s.sample_length = s.pack_length >> random() % 3;
  drawn.model.has_attention_dropout = random() % 2 == 0;
}

// A recipe of fp8, and exchanges in pieces.
inline void draw_transformer_engine(std::mt19937& random, const EngineRules& engine, Strategy& s) {
  if (engine.has_transformer_engine) {
    s.fp8_recipe = static_cast<Fp8Recipe>(random() % 3);
    s.gathers_fp8 = s.has_fp8_products && random() % 2 == 0;
  }
  if (!engine.exchanges_in_pieces) return;
  s.tensor_parallel_overlap =
      s.tensor_parallel > 1 && s.tensor_sequence_parallel && random() % 2 == 0;
}

// Weights, moments and the update on the host.
inline void draw_offload(std::mt19937& random, const EngineRules& engine, Strategy& s) {
  if (!engine.updates_on_host || s.zero < 3 || s.compute_dtype == DType::fp32) return;
  s.offloads_optimizer = random() % 2 == 0;
  if (!s.offloads_optimizer) return;
  s.offloads_parameters = random() % 2 == 0;
  s.gradient_accumulation = 1;
}

// Layers that predict further tokens, recomputed where all others are.
inline void draw_further_tokens(std::mt19937& random, const EngineRules& engine, Case& drawn) {
  Strategy& s = drawn.strategy;
  if (!engine.predicts_further || s.tensor_parallel > 1 || s.expert_parallel_overlap) return;
  const bool recomputes_all = s.recompute_layers == drawn.model.num_hidden_layers;
  drawn.model.further_tokens = static_cast<std::int64_t>(random() % 3);
  if (drawn.model.further_tokens > 0) drawn.model.tie_word_embeddings = false;
  if (recomputes_all) s.recompute_layers = drawn.model.decoder_layers();
}

inline Case draw(std::mt19937& random, const EngineRules& engine, const Family& family) {
  const auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; };
  Case drawn;
  drawn.model = draw_model(random, family);
  Strategy& s = drawn.strategy;
  s.engine = engine.name;
  s.expert_parallel = family.has_experts ? std::int64_t{1} << (random() % 3) : 1;
  s.ranks = s.expert_parallel * up_to(4);
  s.pack_length = 16 * up_to(12);
  s.sample_length = up_to(s.pack_length);
  s.gradient_accumulation = up_to(3);
  s.compute_dtype = random() % 2 == 0 ? DType::fp32 : DType::bf16;
  const std::int64_t layers = drawn.model.num_hidden_layers;
  const bool keeps_last = drawn.model.is_sparse(layers - 1) && !engine.recomputes_last_sparse_layer;
  s.recompute_layers = std::min(up_to(layers + 1) - 1, layers - (keeps_last ? 1 : 0));
  if (engine.swaps_dense || family.has_experts)
    s.swap_layers = std::min(up_to(layers + 1) - 1, s.recompute_layers);
  if (engine.sends_copies && s.expert_parallel > 1 && random() % 2 == 0)
    s.dispatch = Dispatch::deep_ep;
  if (engine.agrs_ranks > 0 && s.expert_parallel > 1 && random() % 3 == 0) {
    s.dispatch = Dispatch::agrs;
    drawn.model.num_experts_per_tok = s.expert_parallel;
  }
  if (engine.runs_in_lock_step) s.intra_layer_micro_batches = up_to(3);
  if (engine.splits_sequences && !family.has_mla && s.ranks % 2 == 0 &&
      drawn.model.num_attention_heads % 2 == 0 &&
      (drawn.model.num_key_value_heads == 1 || drawn.model.num_key_value_heads % 2 == 0))
    s.sequence_parallel = up_to(2);
  if (engine.splits_context && !family.has_mla && s.ranks % 2 == 0) {
    s.context_parallel = s.ranks % 4 == 0 ? 2 * up_to(2) : up_to(2);
    const bool may_be_ring = drawn.model.sliding_window == 0;
    s.context_exchange = static_cast<ContextExchange>(may_be_ring ? random() % 2 : 0);
    s.sample_length = 2 * s.context_parallel * up_to(3);
    s.pack_length = s.sample_length * up_to(4);
  }
  if (engine.replicates && s.expert_parallel == 1 && s.ranks % 2 == 0 &&
      s.ranks / 2 % s.context_parallel == 0 && random() % 2 == 0)
    s.shard_ranks = s.ranks / 2;
  draw_tensor_parallel(random, engine, drawn);
  draw_attention(random, engine, drawn);
  s.zero = engine.least_zero + up_to(engine.most_zero - engine.least_zero + 1) - 1;
  if (s.zero < 3) s.compute_dtype = DType::bf16;
  s.has_fp8_products = engine.has_fp8_products &&
                       (s.tensor_parallel == 1 || engine.has_transformer_engine) &&
                       s.compute_dtype == DType::bf16 && random() % 3 == 0;
  draw_transformer_engine(random, engine, s);
  s.reshards_layers = random() % 3 > 0;
  s.memory_efficient_linear = !engine.may_keep_references || s.zero < 3 || random() % 2 == 0;
  s.is_compiled = !engine.has_eager_kernels || random() % 2 == 0;
  s.compiles_loss = engine.may_compile_loss && s.is_compiled &&
                    (s.tensor_parallel == 1 || engine.has_transformer_engine) && random() % 2 == 0;
  s.returns_logits = engine.may_return_logits && !s.compiles_loss && random() % 2 == 0;
  s.reduce_bucket = engine.reduce_bucket == 0 ? 0 : 64 * up_to(512);
  s.fuses_experts = !engine.has_eager_kernels || s.expert_parallel > 1 || !drawn.model.is_moe() ||
                    random() % 2 == 0;
  s.reduce_dtype = random() % 2 == 0 ? DType::bf16 : DType::fp32;
  if (engine.drops_by_op)
    for (std::size_t op = 0; op < recompute_op_names.size(); ++op)
      if (random() % 3 == 0) s.recompute_ops.add(static_cast<RecomputeOp>(op));
  s.stops_early = !engine.recomputes_to_end || random() % 2 == 0;
  if (!s.stops_early) s.recompute_ops = {};
  s.expert_parallel_overlap =
      engine.pairs_micro_steps && s.expert_parallel > 1 && s.gradient_accumulation > 1 &&
      (s.recompute_layers == 0 || !s.recompute_ops.is_all()) && random() % 2 == 0;
  if (s.expert_parallel_overlap) s.swap_layers = 0;
  s.communication_overlap = !engine.may_overlap_nothing || s.expert_parallel_overlap ||
                            s.tensor_parallel_overlap || random() % 3 > 0;
  if (engine.has_muon && random() % 3 == 0) s.optimizer = Optimizer::muon;
  s.swaps_optimizer =
      s.optimizer == Optimizer::adamw && engine.swaps_optimizer && random() % 4 == 0;
  draw_offload(random, engine, s);
  s.has_balance_loss = engine.is_executed && drawn.model.is_moe() && s.sequence_parallel == 1 &&
                       !drawn.model.has_sigmoid_router && random() % 2 == 0;
  s.loss_chunk = engine.chunks_loss ? up_to(s.loss_tokens()) : s.loss_tokens();
  draw_further_tokens(random, engine, drawn);
  return drawn;
}

// Layers by hand: some in every part, but where the ends of the model may stand alone.
inline void draw_cut(std::mt19937& random, const EngineRules& engine, Case& drawn) {
  Strategy& s = drawn.strategy;
  const bool has_chunks = s.virtual_stages > 1;
  if (engine.hand_cut == HandCut::none || (engine.hand_cut == HandCut::stages && has_chunks))
    return;
  if (random() % 2 == 0) return;
  s.pipeline_layers.assign(static_cast<std::size_t>(s.pipeline_parallel * s.virtual_stages), 1);
  if (engine.hand_cut == HandCut::bare_ends) {
    s.pipeline_layers.front() = random() % 2;
    s.pipeline_layers.back() = random() % 2;
  }
  std::int64_t left = drawn.model.num_hidden_layers;
  for (const std::int64_t layers : s.pipeline_layers) left -= layers;
  for (; left > 0; --left) ++s.pipeline_layers[random() % s.pipeline_layers.size()];
}

// As many micro-steps and ranks as stages need.
inline void draw_pipeline(std::mt19937& random, const EngineRules& engine, Case& drawn) {
  const auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; };
  Strategy& s = drawn.strategy;
  const std::int64_t chunks = engine.interleaves_chunks ? up_to(3) : 1;
  drawn.model.further_tokens = 0;
  s.pipeline_parallel = 1 + up_to(3);
  s.virtual_stages = chunks;
  drawn.model.num_hidden_layers = s.pipeline_parallel * chunks + up_to(4) - 1;
  while (engine.balances_stages && !balanced_stages(drawn.graph(), s.pipeline_parallel))
    ++drawn.model.num_hidden_layers;
  s.gradient_accumulation = chunks > 1 ? s.pipeline_parallel * up_to(3) : up_to(9);
  s.ranks *= s.pipeline_parallel;
  s.shard_ranks = 0;
  s.has_fp8_products = s.has_fp8_products && s.zero < 3;
  s.swap_layers = 0;
  s.recompute_layers = up_to(drawn.model.num_hidden_layers + 1) - 1;
  s.expert_parallel_overlap =
      engine.pairs_micro_steps && chunks > 1 && s.expert_parallel > 1 && s.communication_overlap &&
      (s.recompute_layers == 0 || !s.recompute_ops.is_all()) && random() % 2 == 0;
  const bool offloads =
      engine.offloads_chunks && !drawn.model.is_moe() && s.gradient_accumulation > 1;
  if (offloads && random() % 2 == 0) s.offload_share = static_cast<double>(up_to(20)) / 20;
  if (engine.splits_backward && chunks > 1 && random() % 2 == 0) {
    s.pipeline_schedule = ChunkOrder::zero_bubble;
    s.is_compiled = s.compiles_loss = false;
    s.recompute_layers = 0;
  }
  draw_cut(random, engine, drawn);
}

/// `visit(case)` for `n` cases of every engine with pipelines and every family, from a fixed seed.
template <typename Visit>
void for_each_pipeline(int n, Visit visit) {
  std::mt19937 random(20261129);
  for (const EngineRules& engine : engines())
    for (const Family& family : families())
      for (int i = 0; i < n && engine.has_pipelines; ++i) {
        Case drawn = draw(random, engine, family);
        draw_pipeline(random, engine, drawn);
        visit(drawn);
      }
}

/// `visit(case)` for `n` cases of every engine and family, drawn from a fixed seed.
template <typename Visit>
void for_each_case(int n, Visit visit) {
  std::mt19937 random(20260901);
  for (const EngineRules& engine : engines())
    for (const Family& family : families())
      for (int i = 0; i < n; ++i) visit(draw(random, engine, family));
}

}  // namespace xt::test
