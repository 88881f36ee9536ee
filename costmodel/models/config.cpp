// Source: Hugging Face transformers, configuration_qwen3.py, configuration_qwen3_moe.py and
// configuration_deepseek_v3.py

#include "costmodel/models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

// Columns: norms of query and key, experts, latent attention, LayerNorm and two products, positions
// as in GPT, executed.
constexpr std::array<Family, 7> rows = {{
    {"qwen3", "dense decoder with grouped query attention and norms of query and key", true, false,
     false, false, false, true},
    {"qwen3_moe", "the same with a routed ffn", true, true, false, false, false, true},
    {"llama", "dense decoder with grouped query attention", false, false, false, false, false,
     false},
    {"nemotron", "the same with LayerNorm and squared ReLU between two products", false, false,
     false, true, false, false},
    {"mpt", "GPT style: LayerNorm, GELU, learned positions or ALiBi, no biases", false, false,
     false, true, true, false},
    {"deepseek_v3", "latent attention, routed and shared experts, leading dense layers", false,
     true, true, false, false, false},
    {"kimi_k2", "as deepseek_v3", false, true, true, false, false, false},
}};

}  // namespace

std::span<const Family> families() { return rows; }

void Family::shape(Architecture& architecture) const {
  architecture.has_qk_norm = has_qk_norm;
  architecture.has_layer_norm = has_layer_norm;
  architecture.has_gated_ffn = !has_layer_norm;
}

const Family& family_of(const Architecture& architecture) {
  const auto found = std::ranges::find(rows, architecture.model_type, &Family::model_type);
  XT_CHECK(found != rows.end(), architecture.model_type);
  return *found;
}

void ModelConfig::check(Reader& reader) {
  Architecture& a = architecture;
  if (n_routed_experts_) a.num_experts = *n_routed_experts_;
  a.head_dim = head_dim_.value_or(a.hidden_size / a.num_attention_heads);
  for (const Family& family : rows) {
    if (family.model_type != a.model_type) continue;
    family.shape(a);
    if (family.is_gpt) check_mpt(reader);
    check_latent(reader, family);
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

void ModelConfig::check_latent(Reader& reader, const Family& family) {
  Architecture& a = architecture;
  const bool is_complete = a.q_lora_rank > 0 && a.kv_lora_rank > 0 && a.qk_rope_head_dim > 0 &&
                           a.v_head_dim > 0 && qk_nope_head_dim_;
  if (family.has_mla && !is_complete) {
    reader.problem("model_type", fmt::format("a {} model needs all of q_lora_rank, kv_lora_rank, "
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

// Source: MosaicML llm-foundry, models/mpt/configuration_mpt.py, for the defaults
void ModelConfig::check_mpt(Reader& reader) {
  Architecture& a = architecture;
  const MptAttention attention = mpt_attention_.value_or(MptAttention{});
  const auto refuse = [&](std::string_view key, bool is_set, std::string_view what) {
    if (is_set) reader.problem(key, fmt::format("not supported: {}", what));
  };
  a.intermediate_size = expansion_ratio_.value_or(4) * a.hidden_size;
  a.tie_word_embeddings = true;
  const bool has_alibi = attention.alibi.value_or(false);
  a.position = !has_alibi && learned_pos_emb_.value_or(true) ? Position::learned : Position::biased;
  if (a.num_attention_heads < 1) return;
  if (a.hidden_size % a.num_attention_heads != 0)
    reader.problem("n_heads", fmt::format("d_model {} is not divisible by {} heads", a.hidden_size,
                                          a.num_attention_heads));
  refuse("no_bias", !no_bias_.value_or(false), "biases of products and norms");
  refuse("emb_pdrop", embedding_dropout_.value_or(0) > 0, "dropout of the embedding");
  refuse("resid_pdrop", residual_dropout_.value_or(0) > 0, "dropout of what layers add");
  refuse("attn_config.qk_ln", attention.qk_ln.value_or(false), "norms of query and key");
  refuse("attn_config.attn_pdrop", attention.attn_pdrop.value_or(0) > 0, "dropout of attention");
  refuse("attn_config.clip_qkv",
         attention.clip_qkv && attention.clip_qkv->kind != Node::Kind::nothing,
         "clipped queries, keys and values");
  refuse("attn_config.attn_type",
         attention.attn_type.value_or("multihead_attention") != "multihead_attention",
         "keys and values that heads share");
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
  const std::string_view activation = architecture.has_gated_ffn ? "silu" : "relu2";
  if (hidden_act_ && *hidden_act_ != activation)
    reader.problem("hidden_act", fmt::format("not supported: activation `{}`", *hidden_act_),
                   fmt::format("a {} model has `{}`", architecture.model_type, activation));
  refuse("attention_bias", attention_bias_.value_or(false), "biases of the projections");
  refuse("mlp_bias", mlp_bias_.value_or(false), "biases of the ffn");
  refuse("use_sliding_window", use_sliding_window_.value_or(false), "sliding windows");
  refuse("attention_dropout", attention_dropout_.value_or(0) > 0, "dropout of attention");
  // Scaling changes the angles, not what they cost: it matters to who executes.
  if (family_of(architecture).is_executed)
    refuse("rope_scaling", is_something(rope_scaling_), "scaled rotary angles");
  refuse("quantization_config", is_something(quantization_config_), "quantized weights");
}

}  // namespace xt
