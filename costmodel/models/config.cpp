// Source: Hugging Face transformers, configuration_*.py of each family

#include "costmodel/models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::array<Family, 16> rows = {{
    {.model_type = "qwen3",
     .summary = "dense decoder with grouped query attention and norms of query and key",
     .has_qk_norm = true,
     .is_executed = true},
    {.model_type = "qwen3_moe",
     .summary = "the same with a routed ffn",
     .has_qk_norm = true,
     .has_experts = true,
     .is_executed = true},
    {.model_type = "llama",
     .summary = "dense decoder with grouped query attention",
     .is_executed = true},
    {.model_type = "mistral",
     .summary = "as llama, with a window in all layers where files say so",
     .may_have_windows = true},
    {.model_type = "baichuan",
     .summary = "the same with ALiBi; without the norm of Baichuan 2's lm_head",
     .has_alibi = true},
    {.model_type = "qwen2",
     .summary = "as llama with biases of query, key and value",
     .has_qkv_bias = true,
     .is_executed = true},
    {.model_type = "olmo3",
     .summary = "norms behind attention and ffn, windows in three of four layers",
     .has_qk_norm = true,
     .has_norms_behind = true,
     .full_attention_every = 4},
    {.model_type = "nemotron",
     .summary = "as llama with LayerNorm and squared ReLU between two products",
     .has_layer_norm = true},
    {.model_type = "mpt",
     .summary = "GPT style: LayerNorm, GELU, learned positions or ALiBi, with and without biases",
     .has_layer_norm = true,
     .is_gpt = true},
    {.model_type = "gpt2",
     .summary = "GPT style: LayerNorm, GELU, learned positions, biases and dropout",
     .has_qkv_bias = true,
     .has_bias_everywhere = true,
     .has_layer_norm = true,
     .has_biases = true,
     .is_gpt = true},
    {.model_type = "mixtral",
     .summary = "as llama with a routed ffn",
     .has_experts = true,
     .has_experts_for_ffn = true,
     .is_executed = true},
    {.model_type = "gpt_oss",
     .summary = "routed, with biases, attention sinks and windows in every second layer",
     .has_qkv_bias = true,
     .chooses_norms_and_biases = true,
     .has_bias_everywhere = true,
     .has_sinks = true,
     .full_attention_every = 2,
     .has_experts = true,
     .has_experts_for_ffn = true,
     .has_clamped_swiglu = true,
     .is_executed = true},
    {.model_type = "glm4_moe",
     .summary = "routed and shared experts, leading dense layers, rotary angles of half a head",
     .chooses_norms_and_biases = true,
     .has_experts = true,
     .has_shared_experts = true,
     .has_sigmoid_router = true},
    {.model_type = "bailing_moe_v2",
     .summary = "as glm4_moe",
     .has_qk_norm = true,
     .chooses_norms_and_biases = true,
     .has_experts = true,
     .has_shared_experts = true,
     .has_sigmoid_router = true},
    {.model_type = "deepseek_v3",
     .summary = "latent attention, routed and shared experts, leading dense layers",
     .has_experts = true,
     .has_shared_experts = true,
     .has_sigmoid_router = true,
     .has_mla = true,
     .is_executed = true},
    {.model_type = "kimi_k2",
     .summary = "as deepseek_v3",
     .has_experts = true,
     .has_shared_experts = true,
     .has_sigmoid_router = true,
     .has_mla = true},
}};

}  // namespace

std::span<const Family> families() { return rows; }

void Family::shape(Architecture& architecture) const {
  architecture.has_qk_norm = has_qk_norm;
  architecture.has_qkv_bias = has_qkv_bias;
  architecture.has_bias_everywhere = has_bias_everywhere;
  architecture.has_sinks = has_sinks;
  architecture.has_wide_qk_norm = architecture.has_norms_behind = has_norms_behind;
  architecture.full_attention_every = full_attention_every;
  architecture.has_sigmoid_router = has_sigmoid_router;
  architecture.has_clamped_swiglu = architecture.has_stacked_experts = has_clamped_swiglu;
  architecture.has_layer_norm = has_layer_norm;
  architecture.has_gated_ffn = !has_layer_norm;
  architecture.has_norm_bias = has_biases;
  if (has_alibi) architecture.position = Position::biased;
  architecture.has_dropout = architecture.has_attention_dropout = has_biases;
}

const Family& family_of(const Architecture& architecture) {
  const auto found = std::ranges::find(rows, architecture.model_type, &Family::model_type);
  XT_CHECK(found != rows.end(), architecture.model_type);
  return *found;
}

void ModelConfig::check(Reader& reader) {
  Architecture& a = architecture;
  check_names(reader);
  a.head_dim = head_dim_.value_or(a.hidden_size / a.num_attention_heads);
  for (const Family& family : rows) {
    if (family.model_type != a.model_type) continue;
    family.shape(a);
    if (family.has_experts_for_ffn && a.moe_intermediate_size == 0)
      a.moe_intermediate_size = a.intermediate_size;
    if (a.model_type == "mpt") check_mpt(reader);
    if (a.model_type == "gpt2") check_gpt2(reader);
    check_latent(reader, family);
    check_attention(reader, family);
    check_window(reader, family);
    check_scaling(reader);
    check_router(reader, family);
    if (family.has_experts && a.num_experts == 0)
      reader.problem("model_type", "a " + a.model_type + " model needs num_experts");
    if (!family.has_experts && a.num_experts > 0)
      reader.problem("num_experts", "a " + a.model_type + " model has no experts");
  }
  a.num_key_value_heads = key_value_heads_.value_or(a.num_attention_heads);
  if (a.position == Position::rotary && a.head_dim % 2 != 0)
    reader.problem("head_dim",
                   fmt::format("head_dim is {}, rotary angles need an even size", a.head_dim));
  check_shapes(reader);
  check_variants(reader);
}

// What families have different names for.
void ModelConfig::check_names(Reader& reader) {
  Architecture& a = architecture;
  if (n_routed_experts_) a.num_experts = *n_routed_experts_;
  if (num_local_experts_) a.num_experts = *num_local_experts_;
  if (num_shared_experts_) a.n_shared_experts = *num_shared_experts_;
  if (use_qkv_bias_) attention_bias_ = use_qkv_bias_;
  if (moe_shared_expert_intermediate_size_.value_or(a.moe_intermediate_size) !=
      a.moe_intermediate_size)
    reader.problem("moe_shared_expert_intermediate_size",
                   "not supported: a shared expert of another width",
                   fmt::format("moe_intermediate_size is {}", a.moe_intermediate_size));
}

void ModelConfig::check_attention(Reader& reader, const Family& family) {
  Architecture& a = architecture;
  const auto refuse = [&](std::string_view key, bool is_set, std::string_view what) {
    if (is_set) reader.problem(key, fmt::format("not supported: {}", what));
  };
  if (family.chooses_norms_and_biases) {
    a.has_qk_norm = use_qk_norm_.value_or(family.has_qk_norm);
    a.has_qkv_bias = attention_bias_.value_or(family.has_qkv_bias);
  } else {
    const bool other_norm = use_qk_norm_.value_or(family.has_qk_norm) != family.has_qk_norm;
    const std::string_view bias = use_qkv_bias_ ? "use_qkv_bias" : "attention_bias";
    refuse("use_qk_norm", other_norm, "norms of query and key other than the family's");
    refuse(bias, attention_bias_.value_or(false), "biases of the projections");
  }
  constexpr double part_of_glm = 0.5;
  const double part = partial_rotary_factor_.value_or(a.model_type == "glm4_moe" ? part_of_glm : 1);
  const auto turned = static_cast<std::int64_t>(part * static_cast<double>(a.head_dim));
  refuse("partial_rotary_factor", part != 1 && family.has_mla, "rotary angles of a part of a head");
  if (part != 1) a.rotary_size = turned;
  if (part != 1 && turned % 2 != 0)
    reader.problem("partial_rotary_factor",
                   fmt::format("angles of {} numbers of a head, they need an even size", turned));
}

// Scaling changes the angles, not what they cost: what is not computed here is only priced.
void ModelConfig::check_scaling(Reader& reader) {
  if (!rope_scaling_) return;
  const Scaling& from = *rope_scaling_;
  RopeScaling& to = architecture.rope_scaling;
  const std::string kind = from.rope_type.value_or(from.type.value_or("default"));
  to.kind = kind == "default"  ? RopeScalingKind::none
            : kind == "linear" ? RopeScalingKind::linear
            : kind == "llama3" ? RopeScalingKind::llama3
            : kind == "yarn"   ? RopeScalingKind::yarn
                               : RopeScalingKind::other;
  const auto number = [&](std::string_view key, const std::optional<double>& value, double& member,
                          bool is_needed) {
    if (is_needed && !value)
      reader.problem("rope_scaling", fmt::format("`{}` is not given, which {} needs", key, kind));
    member = value.value_or(member);
  };
  const bool is_llama = to.kind == RopeScalingKind::llama3;
  const bool is_yarn = to.kind == RopeScalingKind::yarn;
  number("factor", from.factor, to.factor,
         is_llama || is_yarn || to.kind == RopeScalingKind::linear);
  number("low_freq_factor", from.low_freq_factor, to.low_freq_factor, is_llama);
  number("high_freq_factor", from.high_freq_factor, to.high_freq_factor, is_llama);
  number("original_max_position_embeddings", from.original_max_position_embeddings,
         to.original_length, is_llama || is_yarn);
  if (is_yarn) check_yarn(reader);
  if (is_llama && to.high_freq_factor <= to.low_freq_factor)
    reader.problem("rope_scaling",
                   fmt::format("high_freq_factor {} must be above low_freq_factor {}",
                               to.high_freq_factor, to.low_freq_factor));
}

// Latent attention multiplies its scores by what others multiply queries and keys by, each.
//
// Source: Hugging Face transformers, modeling_rope_utils.py, _compute_yarn_parameters, and
// modeling_deepseek_v3.py for scores
void ModelConfig::check_yarn(Reader& reader) {
  const Scaling& from = *rope_scaling_;
  RopeScaling& to = architecture.rope_scaling;
  to.beta_fast = from.beta_fast.value_or(to.beta_fast);
  to.beta_slow = from.beta_slow.value_or(to.beta_slow);
  to.truncates = from.truncate.value_or(true);
  if (to.beta_fast <= to.beta_slow)
    reader.problem("rope_scaling", fmt::format("beta_fast {} must be above beta_slow {}",
                                               to.beta_fast, to.beta_slow));
  const auto scale = [&](double by) {
    return to.factor <= 1 ? 1 : 0.1 * by * std::log(to.factor) + 1;
  };
  const double of_angles = from.mscale.value_or(0), of_scores = from.mscale_all_dim.value_or(0);
  const bool has_both = of_angles != 0 && of_scores != 0;
  to.attention_factor =
      from.attention_factor.value_or(has_both ? scale(of_angles) / scale(of_scores) : scale(1));
  if (family_of(architecture).has_mla && of_scores != 0)
    architecture.attention_scale = scale(of_scores) * scale(of_scores);
}

// Groups and factors cost nothing and are read of all; only who executes a router must know it.
void ModelConfig::check_router(Reader& reader, const Family& family) {
  Architecture& a = architecture;
  a.turns_adjacent = family.has_mla && rope_interleave_.value_or(true);
  if (!family.has_sigmoid_router) return;
  if (scoring_func_.value_or("sigmoid") != "sigmoid")
    reader.problem("scoring_func", fmt::format("not supported: scores by `{}`", *scoring_func_),
                   fmt::format("a {} model has `sigmoid`", a.model_type));
  if (topk_method_.value_or("noaux_tc") != "noaux_tc")
    reader.problem("topk_method", fmt::format("not supported: `{}`", *topk_method_),
                   fmt::format("a {} model has `noaux_tc`", a.model_type));
  if (a.num_experts % a.n_group != 0)
    reader.problem("n_group", fmt::format("{} experts are not divisible into {} groups",
                                          a.num_experts, a.n_group));
  if (a.topk_group > a.n_group || a.num_experts_per_tok > a.num_experts / a.n_group * a.topk_group)
    reader.problem("topk_group",
                   fmt::format("{} of {} groups have too few experts for {} of a token",
                               a.topk_group, a.n_group, a.num_experts_per_tok));
}

// In families without windows by layer, use_sliding_window turns one on, or the length itself.
void ModelConfig::check_window(Reader& reader, const Family& family) {
  Architecture& a = architecture;
  constexpr std::string_view within = "sliding_attention", full = "full_attention";
  if (family.full_attention_every > 0) {
    a.sliding_window = sliding_window_.value_or(0);
    if (!sliding_window_)
      reader.problem("model_type", "a " + a.model_type + " model needs sliding_window");
  } else if (family.may_have_windows) {
    a.sliding_window = sliding_window_.value_or(0);
  } else if (family.has_experts_for_ffn && sliding_window_) {
    reader.problem("sliding_window", "not supported: sliding windows");
  }
  if (!layer_types_) return;
  for (std::size_t layer = 0; layer < layer_types_->size(); ++layer) {
    const std::string_view type = a.is_windowed(static_cast<std::int64_t>(layer)) ? within : full;
    if ((*layer_types_)[layer] == type) continue;
    reader.problem(fmt::format("layer_types[{}]", layer),
                   fmt::format("not supported: `{}` in this layer", (*layer_types_)[layer]),
                   fmt::format("a {} model has `{}`", a.model_type, type));
    return;
  }
}

void ModelConfig::check_latent(Reader& reader, const Family& family) {
  Architecture& a = architecture;
  a.q_lora_rank = q_lora_rank_.value_or(0);
  const bool is_complete =
      a.kv_lora_rank > 0 && a.qk_rope_head_dim > 0 && a.v_head_dim > 0 && qk_nope_head_dim_;
  if (family.has_mla && !is_complete) {
    reader.problem("model_type", fmt::format("a {} model needs all of kv_lora_rank, "
                                             "qk_nope_head_dim, qk_rope_head_dim and v_head_dim",
                                             a.model_type));
    return;
  }
  if (family.has_mla) a.head_dim = *qk_nope_head_dim_ + a.qk_rope_head_dim;
  if (!family.has_mla && a.kv_lora_rank > 0)
    reader.problem("kv_lora_rank", "a " + a.model_type + " model has no latent attention");
  if (moe_layer_freq_ && *moe_layer_freq_ != 1)
    reader.problem("moe_layer_freq",
                   fmt::format("not supported: experts in every {} layers", *moe_layer_freq_));
}

// Source: Hugging Face transformers, configuration_gpt2.py, for the defaults
void ModelConfig::check_gpt2(Reader& reader) {
  Architecture& a = architecture;
  constexpr double usual_dropout = 0.1;
  a.intermediate_size = inner_size_.value_or(4 * a.hidden_size);
  a.tie_word_embeddings = true;
  a.position = Position::learned;
  a.has_attention_dropout = weights_dropout_.value_or(usual_dropout) > 0;
  a.has_dropout = residual_dropout_.value_or(usual_dropout) > 0;
  if ((embedding_dropout_.value_or(usual_dropout) > 0) != a.has_dropout)
    reader.problem(embedding_dropout_ ? "embd_pdrop" : "resid_pdrop",
                   "not supported: dropout of the embedding alone, or of all but it",
                   "set embd_pdrop and resid_pdrop alike");
  if (a.num_attention_heads > 0 && a.hidden_size % a.num_attention_heads != 0)
    reader.problem("n_head", fmt::format("n_embd {} is not divisible by {} heads", a.hidden_size,
                                         a.num_attention_heads));
}

void ModelConfig::check_shapes(Reader& reader) const {
  const Architecture& a = architecture;
  if (a.num_attention_heads % a.num_key_value_heads != 0)
    reader.problem("num_key_value_heads",
                   fmt::format("{} query heads are not divisible by {} key/value heads",
                               a.num_attention_heads, a.num_key_value_heads),
                   fmt::format("num_attention_heads is {}, set at line {}", a.num_attention_heads,
                               reader.line_of("num_attention_heads")));
  if (!a.is_moe()) return;
  if (a.num_experts_per_tok < 1 || a.num_experts_per_tok > a.num_experts)
    reader.problem(
        "num_experts",
        fmt::format("{} experts per token of {} experts", a.num_experts_per_tok, a.num_experts),
        "num_experts_per_tok lies between 1 and num_experts");
  if (a.moe_intermediate_size < 1)
    reader.problem("num_experts", "a model with experts needs moe_intermediate_size");
}

void ModelConfig::check_variants(Reader& reader) const {
  const auto refuse = [&](std::string_view key, bool is_set, std::string_view what) {
    if (is_set) reader.problem(key, fmt::format("not supported: {}", what));
  };
  const auto is_something = [](const std::optional<Node>& node) {
    return node && node->kind != Node::Kind::nothing;
  };
  const bool is_gpt2 = architecture.model_type == "gpt2";
  const std::string_view activation = architecture.has_gated_ffn ? "silu"
                                      : is_gpt2                  ? "gelu_new"
                                                                 : "relu2";
  if (hidden_act_ && *hidden_act_ != activation)
    reader.problem(is_gpt2 ? "activation_function" : "hidden_act",
                   fmt::format("not supported: activation `{}`", *hidden_act_),
                   fmt::format("a {} model has `{}`", architecture.model_type, activation));
  refuse("mlp_bias", mlp_bias_.value_or(false), "biases of the ffn");
  refuse("use_sliding_window", use_sliding_window_.value_or(false), "sliding windows");
  refuse("attention_dropout", attention_dropout_.value_or(0) > 0, "dropout of attention");
  refuse("vision_config", is_something(vision_config_), "a vision tower");
  refuse("router_jitter_noise", router_jitter_noise_.value_or(0) > 0, "noise at a router");
  if (is_something(quantization_config_))
    reader.problem("quantization_config", "not supported: quantized weights",
                   "leave it out where training holds weights in 16 or 32 bits");
}

}  // namespace xt
