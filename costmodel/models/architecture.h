#pragma once

// The numbers that make one model out of a family, under the names of Hugging Face's config.json.

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/ir/rope_scaling.h"

namespace xt {

/// How a token knows its place: angles of queries and keys, a learned vector added to its
/// embedding, or a bias inside attention (ALiBi), which costs
/// nothing where attention is fused.
enum class Position : std::uint8_t { rotary, learned, biased };

/// A decoder-only transformer.
struct Architecture {
  std::string model_type;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  /// Predicted beyond the next one, each by a layer behind the last: see further_token_block().
  std::int64_t further_tokens = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;  ///< ffn width of dense layers
  double rms_norm_eps = 1e-6;          ///< of LayerNorm too, where that is the norm
  double rope_theta = 1e6;
  RopeScaling rope_scaling;
  double attention_scale = 1;   ///< of scores, beside one over the root of the head size
  bool turns_adjacent = false;  ///< rotary angles turn columns that are adjacent, not halves
  bool tie_word_embeddings = false;
  bool has_qk_norm = false;
  bool has_wide_qk_norm = false;       ///< these norms are over all heads together
  bool has_qkv_bias = false;           ///< of query, key and value
  bool has_bias_everywhere = false;    ///< of attention's output, router and experts too
  bool has_sinks = false;              ///< a logit of each head that attends to nothing
  bool has_norms_behind = false;       ///< of attention and ffn, none before
  bool has_layer_norm = false;         ///< else RMSNorm
  bool has_norm_bias = false;          ///< of LayerNorm
  bool has_dropout = false;            ///< of the embedding and of what layers add
  bool has_attention_dropout = false;  ///< of the weights of attention
  bool has_gated_ffn = true;           ///< SwiGLU; else GELU between two products
  Position position = Position::rotary;
  std::int64_t rotary_size = 0;              ///< part of a head with angles; 0: all of it
  std::int64_t sliding_window = 0;           ///< tokens that windowed layers see; 0: all
  std::int64_t full_attention_every = 0;     ///< of so many layers, the last one sees all tokens
  std::int64_t max_position_embeddings = 0;  ///< rows of the table of learned positions

  std::int64_t num_experts = 0;  ///< 0 in a dense model
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  bool norm_topk_prob = true;
  bool has_sigmoid_router = false;  ///< with a bias of the choice; else softmax
  std::int64_t n_group = 1;         ///< of experts, of which a token goes to topk_group alone
  std::int64_t topk_group = 1;
  double routed_scaling_factor = 1;  ///< of the weights of a token's experts
  bool has_clamped_swiglu = false;   ///< of experts, gate and up column by column
  bool has_stacked_experts = false;  ///< in one tensor for all, columns before rows
  double swiglu_limit = 7;           ///< where that is clamped
  std::vector<std::int64_t> mlp_only_layers;
  std::int64_t decoder_sparse_step = 1;

  std::int64_t n_shared_experts = 0;       ///< that every token goes to
  std::int64_t first_k_dense_replace = 0;  ///< leading layers without experts

  std::int64_t q_lora_rank = 0;   ///< 0: queries pass through none
  std::int64_t kv_lora_rank = 0;  ///< 0 without multi-head latent attention
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  bool operator==(const Architecture&) const = default;

  /// Whether decoder layer `layer` routes its tokens to experts.
  bool is_sparse(std::int64_t layer) const;
  /// Decoder layers, those that predict further tokens among them.
  std::int64_t decoder_layers() const { return num_hidden_layers + further_tokens; }
  /// Layers that route.
  std::int64_t sparse_layers() const;
  /// Whether attention of layer `layer` sees no farther than the window.
  bool is_windowed(std::int64_t layer) const {
    return sliding_window > 0 &&
           (full_attention_every == 0 || (layer + 1) % full_attention_every != 0);
  }
  /// The part of a head that rotary angles turn.
  std::int64_t turned_size() const {
    if (has_mla()) return qk_rope_head_dim;
    return rotary_size > 0 ? rotary_size : head_dim;
  }
  bool is_moe() const { return num_experts > 0; }
  bool has_mla() const { return kv_lora_rank > 0; }
  /// Attention flops that count for MFU over those executed: values of latent attention are padded
  /// to the size of queries, and padding does not count.
  ///
  /// Source:  Megatron-LM, training/training.py, num_floating_point_operations, MLA branch
  double counted_attention_share() const {
    if (!has_mla()) return 1;
    return static_cast<double>(head_dim + v_head_dim) / static_cast<double>(2 * head_dim);
  }
};

}  // namespace xt
