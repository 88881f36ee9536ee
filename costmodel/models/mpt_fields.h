#pragma once

// Fields of MosaicML's MPT, under the names of its own configuration. Private to config.h.

#include "costmodel/models/config.h"

namespace xt {

template <typename Archive>
void ModelConfig::MptAttention::describe(Archive& archive) {
  archive.field("alibi", alibi, "A bias of attention instead of positions");
  archive.field("qk_ln", qk_ln, "Norms of query and key");
  archive.field("attn_type", attn_type,
                "multihead_attention, or grouped_query_attention: heads share keys and values");
  archive.field("kv_n_heads", kv_n_heads, "Heads of keys and values, where others share them")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("attn_pdrop", attn_pdrop, "Dropout of attention");
  archive.field("clip_qkv", clip_qkv, "Bound on queries, keys and values");
  for (const std::string_view key :
       {"alibi_bias_max", "attn_impl", "attn_uses_sequence_id", "prefix_lm", "softmax_scale"})
    archive.field(key, ignored, "Without effect on a step's cost");
}

template <typename Archive>
void ModelConfig::describe_mpt(Archive& archive) {
  Architecture& a = architecture;
  archive.field("d_model", a.hidden_size, "Width of the model")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("n_layers", a.num_hidden_layers, "Decoder layers")
      .at_least(1)
      .at_most(ConfigLimits::layers);
  archive.field("n_heads", a.num_attention_heads, "Heads").at_least(1).at_most(ConfigLimits::heads);
  archive.field("max_seq_len", a.max_position_embeddings, "Positions of the table")
      .at_least(1)
      .at_most(ConfigLimits::vocabulary);
  archive.field("expansion_ratio", expansion_ratio_, "Ffn width over that of the model")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("attn_config", mpt_attention_, "Attention");
  archive.field("no_bias", no_bias_, "true: products and norms have no biases (default false)");
  archive.field("learned_pos_emb", learned_pos_emb_, "A learned vector for every position");
  archive.field("emb_pdrop", embedding_dropout_, "Dropout of the embedding");
  archive.field("resid_pdrop", residual_dropout_, "Dropout of what layers add");
  for (const std::string_view key :
       {"embedding_fraction", "init_config", "init_device", "logit_scale", "norm_type", "verbose"})
    archive.field(key, ignored_, "Without effect on a step's cost");
}

}  // namespace xt
