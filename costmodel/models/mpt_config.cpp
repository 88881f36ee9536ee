// What an MPT is by its configuration, and what of it is not modelled.

#include <fmt/format.h>

#include "costmodel/models/config.h"

namespace xt {

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
  a.has_qkv_bias = a.has_bias_everywhere = a.has_norm_bias = !no_bias_.value_or(false);
  refuse("emb_pdrop", embedding_dropout_.value_or(0) > 0, "dropout of the embedding");
  refuse("resid_pdrop", residual_dropout_.value_or(0) > 0, "dropout of what layers add");
  refuse("attn_config.qk_ln", attention.qk_ln.value_or(false), "norms of query and key");
  refuse("attn_config.attn_pdrop", attention.attn_pdrop.value_or(0) > 0, "dropout of attention");
  refuse("attn_config.clip_qkv",
         attention.clip_qkv && attention.clip_qkv->kind != Node::Kind::nothing,
         "clipped queries, keys and values");
  const std::string type = attention.attn_type.value_or("multihead_attention");
  const bool is_grouped = type == "grouped_query_attention";
  refuse("attn_config.attn_type", !is_grouped && type != "multihead_attention",
         "keys and values of one head");
  refuse("attn_config.kv_n_heads", attention.kv_n_heads.has_value() != is_grouped,
         "heads of keys and values of another attention than grouped_query_attention");
  if (is_grouped) key_value_heads_ = attention.kv_n_heads;
}

}  // namespace xt
