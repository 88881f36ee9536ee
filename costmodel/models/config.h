#pragma once

// A model file: Hugging Face's config.json, with two keys of our own for models that we ship. A
// field that would change what a step computes and that we do not model is refused by name.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/document/reader.h"
#include "costmodel/models/architecture.h"
#include "costmodel/models/config_limits.h"

namespace xt {

/// One row per model family that can be built.
struct Family {
  std::string_view model_type;
  std::string_view summary;
  bool has_qk_norm = false;
  bool has_qkv_bias = false;
  bool chooses_norms_and_biases = false;  ///< of both the above, its files say themselves
  bool has_bias_everywhere = false;       ///< of router and experts; of output where of query
  bool has_sinks = false;
  bool has_norms_behind = false;  ///< and norms of query and key over all heads together
  std::int64_t full_attention_every =
      0;                          ///< layers of which the others have a window; 0: no window
  bool may_have_windows = false;  ///< in all layers, where files say how long
  bool has_experts = false;
  bool has_experts_for_ffn = false;  ///< intermediate_size is the width of an expert
  bool has_shared_experts = false;   ///< and leading layers without experts, where files say so
  bool has_sigmoid_router = false;   ///< with a bias of the choice, and groups of experts
  bool has_clamped_swiglu = false;   ///< of experts, which lie in one tensor
  bool has_mla = false;
  bool has_layer_norm = false;  ///< and an ffn of two products
  bool has_biases = false;      ///< of products and norms, and dropout unless files turn it off
  bool has_alibi = false;       ///< a bias of attention in the place of rotary angles
  bool is_gpt = false;          ///< positions are learned or a bias of attention
  bool is_executed = false;     ///< by xt-run

  /// Sets what all models of the family have in common.
  void shape(Architecture& architecture) const;
};

/// All families.
std::span<const Family> families();

/// The family of `architecture`.
///
/// Assumes: its model_type is that of a family
const Family& family_of(const Architecture& architecture);

/// The content of a model file.
struct ModelConfig {
  Architecture architecture;
  std::optional<std::int64_t> published_parameters;
  std::optional<std::string> source;

  template <typename Archive>
  void describe(Archive& archive);
  void check(Reader& reader);

 private:
  template <typename Archive>
  void describe_sizes(Archive& archive);
  template <typename Archive>
  void describe_mpt(Archive& archive);
  template <typename Archive>
  void describe_gpt2(Archive& archive);
  template <typename Archive>
  void describe_deepseek(Archive& archive);
  template <typename Archive>
  void describe_variants(Archive& archive);
  template <typename Archive>
  void describe_without_cost(Archive& archive);
  void check_names(Reader& reader);
  void check_attention(Reader& reader, const Family& family);
  void check_window(Reader& reader, const Family& family);
  void check_scaling(Reader& reader);
  void check_yarn(Reader& reader);
  void check_router(Reader& reader, const Family& family);
  void check_shapes(Reader& reader) const;
  void check_variants(Reader& reader) const;
  void check_latent(Reader& reader, const Family& family);
  void check_mpt(Reader& reader);
  void check_gpt2(Reader& reader);

  // Keys of MPT's attn_config.
  struct MptAttention {
    std::optional<bool> alibi, qk_ln;
    std::optional<std::string> attn_type;
    std::optional<std::int64_t> kv_n_heads;
    std::optional<double> attn_pdrop;
    std::optional<Node> clip_qkv, ignored;

    template <typename Archive>
    void describe(Archive& archive);
  };

  std::optional<std::int64_t> expansion_ratio_;
  std::optional<bool> no_bias_, learned_pos_emb_;
  std::optional<double> embedding_dropout_, residual_dropout_, weights_dropout_;
  std::optional<std::int64_t> inner_size_;
  std::optional<MptAttention> mpt_attention_;
  std::optional<std::int64_t> key_value_heads_, head_dim_;
  std::optional<std::string> hidden_act_;
  std::optional<bool> attention_bias_, mlp_bias_, use_sliding_window_, use_qk_norm_, use_qkv_bias_;
  std::optional<double> attention_dropout_, partial_rotary_factor_, router_jitter_noise_;
  std::optional<std::int64_t> q_lora_rank_;
  std::optional<std::int64_t> n_routed_experts_, num_local_experts_, num_shared_experts_,
      moe_shared_expert_intermediate_size_, qk_nope_head_dim_, moe_layer_freq_, sliding_window_;
  std::optional<std::vector<std::string>> layer_types_;
  std::optional<std::string> scoring_func_, topk_method_;
  std::optional<bool> rope_interleave_;
  // Keys of rope_scaling.
  struct Scaling {
    std::optional<std::string> rope_type, type;
    std::optional<double> factor, low_freq_factor, high_freq_factor,
        original_max_position_embeddings, beta_fast, beta_slow, mscale, mscale_all_dim,
        attention_factor;
    std::optional<bool> truncate;
    std::optional<Node> ignored;

    template <typename Archive>
    void describe(Archive& archive);
  };

  std::optional<Scaling> rope_scaling_;
  std::optional<Node> quantization_config_, vision_config_, ignored_;
};

template <typename Archive>
void ModelConfig::describe(Archive& archive) {
  Architecture& a = architecture;
  std::vector<std::string_view> types;
  for (const Family& family : families()) types.push_back(family.model_type);
  archive.field("model_type", a.model_type, "Family of the model").one_of(types);
  archive.field("vocab_size", a.vocab_size, "Rows of the embedding")
      .at_least(2)
      .at_most(ConfigLimits::vocabulary);
  if (a.model_type == "mpt") {
    describe_mpt(archive);
  } else if (a.model_type == "gpt2") {
    describe_gpt2(archive);
  } else {
    describe_sizes(archive);
    describe_deepseek(archive);
    describe_variants(archive);
  }
  describe_without_cost(archive);
}

template <typename Archive>
void ModelConfig::describe_sizes(Archive& archive) {
  Architecture& a = architecture;
  archive.field("hidden_size", a.hidden_size, "Width of the model")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("num_hidden_layers", a.num_hidden_layers, "Decoder layers")
      .at_least(1)
      .at_most(ConfigLimits::layers);
  archive.field("num_attention_heads", a.num_attention_heads, "Query heads")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("num_key_value_heads", key_value_heads_, "Key and value heads")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("head_dim", head_dim_, "Size of a head").at_least(1).at_most(ConfigLimits::width);
  archive.field("intermediate_size", a.intermediate_size, "Ffn width of dense layers")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("rms_norm_eps", a.rms_norm_eps, "Added to the mean square").optional();
  archive.field("rope_theta", a.rope_theta, "Base of the rotary angles").optional();
  archive.field("tie_word_embeddings", a.tie_word_embeddings, "lm_head is the embedding")
      .optional();
  archive.field("num_experts", a.num_experts, "Experts of a routed layer")
      .optional()
      .at_least(0)
      .at_most(ConfigLimits::experts);
  archive.field("num_local_experts", num_local_experts_, "As num_experts")
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("num_experts_per_tok", a.num_experts_per_tok, "Experts a token goes to")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("moe_intermediate_size", a.moe_intermediate_size, "Ffn width of an expert")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("norm_topk_prob", a.norm_topk_prob, "Weights of a token's experts sum to one")
      .optional();
  archive.field("mlp_only_layers", a.mlp_only_layers, "Layers without experts").optional();
  archive.field("decoder_sparse_step", a.decoder_sparse_step, "Every how many layers has experts")
      .optional()
      .at_least(1);
}

template <typename Archive>
void ModelConfig::Scaling::describe(Archive& archive) {
  archive.field("rope_type", rope_type, "How frequencies are scaled");
  archive.field("type", type, "As rope_type");
  archive.field("factor", factor, "What frequencies are divided by").above(0);
  archive.field("low_freq_factor", low_freq_factor, "Of llama3, for long waves").above(0);
  archive.field("high_freq_factor", high_freq_factor, "Of llama3, for short waves").above(0);
  archive
      .field("original_max_position_embeddings", original_max_position_embeddings,
             "Tokens of a sequence before scaling")
      .above(0);
  archive.field("beta_fast", beta_fast, "Of yarn, turns of waves that stay").above(0);
  archive.field("beta_slow", beta_slow, "Of yarn, turns of waves that are divided").above(0);
  archive.field("mscale", mscale, "Of yarn, what angles are multiplied by grows with it");
  archive.field("mscale_all_dim", mscale_all_dim, "Of yarn, what scores are multiplied by does");
  archive.field("attention_factor", attention_factor, "Of yarn, what angles are multiplied by")
      .above(0);
  archive.field("truncate", truncate, "Of yarn, whole columns bound those divided in part");
  for (const std::string_view key : {"finetuned", "long_factor", "short_factor"})
    archive.field(key, ignored, "Without effect on a step's cost");
}

template <typename Archive>
void ModelConfig::describe_gpt2(Archive& archive) {
  Architecture& a = architecture;
  archive.field("n_embd", a.hidden_size, "Width of the model")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("n_layer", a.num_hidden_layers, "Decoder layers")
      .at_least(1)
      .at_most(ConfigLimits::layers);
  archive.field("n_head", a.num_attention_heads, "Heads").at_least(1).at_most(ConfigLimits::heads);
  archive.field("n_positions", a.max_position_embeddings, "Positions of the table")
      .at_least(1)
      .at_most(ConfigLimits::vocabulary);
  archive.field("n_inner", inner_size_, "Ffn width (default: four times the model's)")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("activation_function", hidden_act_, "Activation of the ffn");
  archive.field("embd_pdrop", embedding_dropout_, "Dropout of the embedding");
  archive.field("resid_pdrop", residual_dropout_, "Dropout of what layers add");
  archive.field("attn_pdrop", weights_dropout_, "Dropout of attention");
  for (const std::string_view key :
       {"layer_norm_epsilon", "n_ctx", "scale_attn_weights", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
        "task_specific_params"})
    archive.field(key, ignored_, "Without effect on a step's cost");
}

template <typename Archive>
void ModelConfig::describe_deepseek(Archive& archive) {
  Architecture& a = architecture;
  archive.field("n_routed_experts", n_routed_experts_, "As num_experts")
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("n_shared_experts", a.n_shared_experts, "Experts that every token goes to")
      .optional()
      .at_least(0)
      .at_most(ConfigLimits::experts);
  archive.field("num_shared_experts", num_shared_experts_, "As n_shared_experts")
      .at_least(0)
      .at_most(ConfigLimits::experts);
  archive
      .field("moe_shared_expert_intermediate_size", moe_shared_expert_intermediate_size_,
             "Ffn width of an expert that every token goes to")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("first_k_dense_replace", a.first_k_dense_replace, "Leading layers without experts")
      .optional()
      .at_least(0);
  archive.field("moe_layer_freq", moe_layer_freq_, "Every how many layers has experts");
  archive.field("q_lora_rank", q_lora_rank_, "Rank that queries pass through, where they do")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("kv_lora_rank", a.kv_lora_rank, "Size of the latent of keys and values")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("qk_nope_head_dim", qk_nope_head_dim_, "Part of a head without rotary angles")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("qk_rope_head_dim", a.qk_rope_head_dim, "Part of a head with rotary angles")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("v_head_dim", a.v_head_dim, "Size of a head's values")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("n_group", a.n_group, "Groups of experts")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("topk_group", a.topk_group, "Groups that a token goes to")
      .optional()
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive
      .field("routed_scaling_factor", a.routed_scaling_factor, "Of the weights of routed experts")
      .optional();
  archive.field("scoring_func", scoring_func_, "How the router scores experts");
  archive.field("topk_method", topk_method_, "How the router chooses experts");
  archive.field("rope_interleave", rope_interleave_, "Adjacent columns have one rotary angle");
  archive.field("swiglu_limit", a.swiglu_limit, "Bound of gate and up").optional().above(0);
}

template <typename Archive>
void ModelConfig::describe_variants(Archive& archive) {
  archive.field("hidden_act", hidden_act_, "Activation of the ffn");
  archive.field("attention_bias", attention_bias_, "Biases of the projections");
  archive.field("use_qkv_bias", use_qkv_bias_, "As attention_bias");
  archive.field("use_qk_norm", use_qk_norm_, "Norms of query and key");
  archive.field("mlp_bias", mlp_bias_, "Biases of the ffn");
  archive.field("partial_rotary_factor", partial_rotary_factor_, "Part of a head with angles")
      .above(0)
      .at_most(1);
  archive.field("use_sliding_window", use_sliding_window_, "Attention within a window");
  archive.field("attention_dropout", attention_dropout_, "Dropout of attention");
  archive.field("router_jitter_noise", router_jitter_noise_, "Noise on what a router reads");
  archive.field("rope_scaling", rope_scaling_, "Scaled rotary angles");
  archive.field("sliding_window", sliding_window_, "Length of the window").at_least(1);
  archive.field("layer_types", layer_types_, "Whether each layer's attention has the window");
  archive.field("num_nextn_predict_layers", architecture.further_tokens, "Further tokens")
      .optional()
      .at_least(0)
      .at_most(ConfigLimits::further_tokens);
  archive.field("vision_config", vision_config_, "A tower for images");
  archive.field("quantization_config", quantization_config_, "Quantized weights");
}

// Keys of published files that change neither shapes nor kernels of a training step.
template <typename Archive>
void ModelConfig::describe_without_cost(Archive& archive) {
  for (const std::string_view key : {"architectures",
                                     "auto_map",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "pad_token_id",
                                     "initializer_range",
                                     "max_position_embeddings",
                                     "max_window_layers",
                                     "output_router_logits",
                                     "router_aux_loss_coef",
                                     "torch_dtype",
                                     "dtype",
                                     "transformers_version",
                                     "use_cache",
                                     "aux_loss_alpha",
                                     "seq_aux",
                                     "ep_size",
                                     "pretraining_tp",
                                     "experts_per_token",
                                     "initial_context_length",
                                     "score_function",
                                     "moe_router_enable_expert_bias",
                                     "_name_or_path",
                                     "rope_parameters",
                                     "norm_eps"})
    archive.field(key, ignored_, "Without effect on a step's cost");
  archive.field("published_parameters", published_parameters, "Total to be checked against");
  archive.field("source", source, "Where the numbers come from");
}

}  // namespace xt

#include "costmodel/models/mpt_fields.h"
