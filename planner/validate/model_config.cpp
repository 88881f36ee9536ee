#include "planner/validate/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/validate/row_attention.h"
#include "planner/validate/spelling.h"

namespace xt {
namespace {

bool is_named(const PublishedModel& model, std::string_view part) {
  return has_words(model.name, part);
}

// Layers of these models differ in more than rows can say: some have no attention but a state.
//
// Source: config.json of Qwen/Qwen3-Next-80B-A3B-Instruct, nvidia/Nemotron-H-8B-Base-8K,
// nvidia/NVIDIA-Nemotron-Nano-9B-v2 and ai21labs/AI21-Jamba-1.5-Mini
constexpr std::array<std::string_view, 8> hybrids = {"Qwen3-Next",    "Qwen3.5", "Nemotron-H",
                                                     "Nemotron-Nano", "Jamba",   "Mamba",
                                                     "Kimi-Linear",   "RWKV"};
bool is_hybrid(const PublishedModel& model) {
  return std::ranges::any_of(hybrids, [&](std::string_view name) { return is_named(model, name); });
}

// Experts are priced with three matrices each, under rotary angles, as where a row does not say.
bool has_other_experts(const PublishedModel& model) {
  return model.is_moe() && (!model.gated_mlp || model.position.value_or("rope") != "rope");
}

bool is_glm(const PublishedModel& model) { return model.is_moe() && is_named(model, "glm"); }

// A family and which models are of it.
struct TypeRule {
  std::string_view model_type;
  bool (*applies)(const PublishedModel& model);
};

// The first that fits a model counts. NVIDIA's Grok-1 has the layers of Mixtral.
//
// Source: dgxc-benchmarking, grok1/grok1_314b.yaml: norms before attention and experts, gated GELU
constexpr std::array<TypeRule, 19> type_rules = {{
    {"hybrid", is_hybrid},
    {"other_moe", has_other_experts},
    {"deepseek_v3", [](const PublishedModel& m) { return m.kv_lora_rank.has_value(); }},
    {"gpt_oss", [](const PublishedModel& m) { return m.is_moe() && m.sliding_window.has_value(); }},
    {"qwen3_moe", [](const PublishedModel& m) { return m.is_moe() && is_named(m, "qwen3"); }},
    {"mixtral",
     [](const PublishedModel& m) {
       return m.is_moe() && (is_named(m, "mixtral") || is_named(m, "grok1"));
     }},
    {"glm4_moe", is_glm},
    {"other_moe", [](const PublishedModel& m) { return m.is_moe(); }},
    {"baichuan", [](const PublishedModel& m) { return m.position == "alibi" && m.gated_mlp; }},
    {"other", [](const PublishedModel& m) { return m.position == "learned" && m.gated_mlp; }},
    {"bloom", [](const PublishedModel& m) { return m.position == "alibi"; }},
    {"mpt", [](const PublishedModel& m) { return m.position == "learned" && !m.gated_mlp; }},
    {"nemotron",
     [](const PublishedModel& m) {
       return m.position == "rope" && !m.gated_mlp && is_named(m, "nemotron");
     }},
    {"qwen3", [](const PublishedModel& m) { return m.gated_mlp && is_named(m, "qwen3"); }},
    {"qwen2", [](const PublishedModel& m) { return m.gated_mlp && is_named(m, "qwen"); }},
    {"olmo3", [](const PublishedModel& m) { return m.gated_mlp && is_named(m, "olmo"); }},
    {"mistral", [](const PublishedModel& m) { return m.gated_mlp && is_named(m, "mistral"); }},
    {"llama",
     [](const PublishedModel& m) { return m.gated_mlp && m.position.value_or("rope") == "rope"; }},
    {"other", [](const PublishedModel&) { return true; }},
}};

// A config.json in the making; a value that there is none of is left out.
class Config {
 public:
  Config() : root_(map_node()) {}
  Config(std::string_view type) : Config() { text("model_type", type); }
  Config& text(std::string_view key, std::string_view value) {
    add(root_, std::string(key), text_node(std::string(value)));
    return *this;
  }
  Config& within(std::string_view key, Config inner) {
    add(root_, std::string(key), std::move(inner.root_));
    return *this;
  }
  Config& number(std::string_view key, std::optional<std::int64_t> value) {
    if (value) add(root_, std::string(key), literal_node(std::to_string(*value)));
    return *this;
  }
  Config& truth(std::string_view key, bool value) {
    add(root_, std::string(key), literal_node(value ? "true" : "false"));
    return *this;
  }
  Document document(const std::string& name) const { return {{name, ""}, root_}; }

 private:
  Node root_;
};

void add_experts(Config& config, const PublishedModel& model) {
  const bool is_routed_alone = model.kv_lora_rank.has_value() || is_glm(model);
  config.number(is_routed_alone ? "n_routed_experts" : "num_experts", model.num_experts)
      .number("num_experts_per_tok", model.num_experts_per_tok)
      .number("moe_intermediate_size", model.moe_intermediate_size)
      .number("n_shared_experts",
              *model.shared_expert_intermediate_size / *model.moe_intermediate_size)
      .number("first_k_dense_replace", model.first_k_dense_replace);
}

// What rows do not say of GLM-4.5 and 4.6, of which Air has no norms of queries and keys.
//
// Source: config.json of zai-org/GLM-4.5, GLM-4.5-Air and GLM-4.6
void add_glm(Config& config, const PublishedModel& model) {
  config.truth("attention_bias", true).truth("use_qk_norm", !is_named(model, "air"));
}

void add_latent_attention(Config& config, const PublishedModel& model) {
  config.number("q_lora_rank", model.q_lora_rank)
      .number("kv_lora_rank", model.kv_lora_rank)
      .number("qk_nope_head_dim", model.qk_nope_head_dim)
      .number("qk_rope_head_dim", model.qk_rope_head_dim)
      .number("v_head_dim", model.v_head_dim);
}

// Tokens that Mistral 7B attends to, where a row does not say.
//
// Source: config.json of mistralai/Mistral-7B-v0.1; ModelLink,
// examples/mistral/pretrain_mistral_7b_ptd.sh, --sliding-window
constexpr std::int64_t mistral_window = 4096;

// MPT's names; all of a row's sequences have learned positions. Biases are there unless somebody
// asks for none, and the parameters that LLM-Foundry prints count them.
//
// Source: llm-foundry, models/mpt/configuration_mpt.py
ModelConfig mpt_config(const PublishedModel& model, std::int64_t positions) {
  Config config("mpt");
  config.number("vocab_size", model.vocab_size)
      .number("d_model", model.hidden_size)
      .number("n_layers", model.num_hidden_layers)
      .number("n_heads", model.num_attention_heads)
      .number("expansion_ratio", model.intermediate_size / model.hidden_size)
      .number("max_seq_len", positions)
      .truth("no_bias", false);
  if (model.num_key_value_heads != model.num_attention_heads)
    config.within("attn_config", Config()
                                     .text("attn_type", "grouped_query_attention")
                                     .number("kv_n_heads", model.num_key_value_heads));
  return read<ModelConfig>(config.document("model of the row"));
}

// What a config.json of GPT-OSS says of its angles.
//
// Source: Hugging Face transformers, configuration_gpt_oss.py
void add_scaled_angles(Config& config) {
  config.within("rope_scaling", Config()
                                    .text("rope_type", "yarn")
                                    .number("factor", 32)
                                    .number("original_max_position_embeddings", 4096));
}

// Megatron-LM's GPT, which has biases and, unless told otherwise, dropout of a tenth.
//
// Source: Megatron-LM, megatron/arguments.py
ModelConfig gpt2_config(const PublishedModel& model, std::int64_t positions) {
  Config config("gpt2");
  config.number("vocab_size", model.vocab_size)
      .number("n_embd", model.hidden_size)
      .number("n_layer", model.num_hidden_layers)
      .number("n_head", model.num_attention_heads)
      .number("n_inner", model.intermediate_size)
      .number("n_positions", positions);
  return read<ModelConfig>(config.document("model of the row"));
}

}  // namespace

std::string_view model_type(const PublishedModel& model) {
  return std::ranges::find_if(type_rules, [&](const TypeRule& rule) { return rule.applies(model); })
      ->model_type;
}

std::vector<std::string_view> model_types() {
  std::vector<std::string_view> types;
  for (const TypeRule& rule : type_rules) types.push_back(rule.model_type);
  return types;
}

std::string misshape(const PublishedRow& row) {
  const PublishedModel& m = row.model;
  if (m.kv_lora_rank && m.head_dim != *m.qk_nope_head_dim + *m.qk_rope_head_dim)
    return fmt::format("head_dim is {}, its parts are {} and {}", m.head_dim, *m.qk_nope_head_dim,
                       *m.qk_rope_head_dim);
  if (model_type(m) != "mpt") return {};
  if (m.hidden_size % m.num_attention_heads == 0 &&
      m.hidden_size / m.num_attention_heads != m.head_dim)
    return fmt::format("{} heads of {} in a width of {}", m.num_attention_heads, m.head_dim,
                       m.hidden_size);
  if (has_unfused_attention(row) && m.num_key_value_heads != m.num_attention_heads)
    return "heads that share keys, without fused attention";
  if (!has_unfused_attention(row) && m.intermediate_size % m.hidden_size != 0)
    return fmt::format("an ffn of {} is no multiple of {}", m.intermediate_size, m.hidden_size);
  return m.mtp_layers.value_or(0) == 0 ? "" : "layers that predict further tokens";
}

ModelConfig model_config(const PublishedModel& model, std::int64_t positions,
                         bool has_unfused_attention) {
  const std::string_view type = model_type(model);
  if (type == "mpt") {
    ModelConfig config =
        has_unfused_attention ? gpt2_config(model, positions) : mpt_config(model, positions);
    config.architecture.tie_word_embeddings = model.tie_word_embeddings;
    return config;
  }
  Config config(type);
  if (type == "gpt_oss" || type == "olmo3")
    config.number("sliding_window", model.sliding_window.value_or(positions));
  if (type == "mistral")
    config.number("sliding_window", model.sliding_window.value_or(mistral_window));
  if (type == "gpt_oss") add_scaled_angles(config);
  config.number("vocab_size", model.vocab_size)
      .number("hidden_size", model.hidden_size)
      .number("num_hidden_layers", model.num_hidden_layers)
      .number("num_attention_heads", model.num_attention_heads)
      .number("num_key_value_heads", model.num_key_value_heads)
      .number("intermediate_size", model.intermediate_size)
      .number("num_nextn_predict_layers", model.mtp_layers.value_or(0))
      .truth("tie_word_embeddings", model.tie_word_embeddings);
  if (model.kv_lora_rank)
    add_latent_attention(config, model);
  else
    config.number("head_dim", model.head_dim);
  if (model.is_moe()) add_experts(config, model);
  if (type == "glm4_moe") add_glm(config, model);
  return read<ModelConfig>(config.document("model of the row"));
}

}  // namespace xt
