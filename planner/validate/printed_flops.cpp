#include "planner/validate/printed_flops.h"

#include <algorithm>

#include "planner/validate/spelling.h"

namespace xt {
namespace {

enum class Pairs : std::uint8_t { full, causal, by_hidden_size };

// How flops of a token are counted.
struct Convention {
  std::string_view framework;  // how its name begins; empty: any
  std::string_view phrase;     // in what a row says of its convention
  Pairs pairs = Pairs::full;
  bool counts_embedding = false;  // every parameter, biases and norms included
  bool counts_router = false;
  bool has_usual_ffn = false;     // three matrices of 8/3 of the hidden size, whatever there is
  bool counts_recompute = false;  // of layers that are recomputed
};

// The first that fits a row counts.
constexpr std::array<Convention, 9> conventions = {{
    {"", "6 x all parameters", Pairs::full, true},
    {"", "by hidden size", Pairs::by_hidden_size, false, true},
    {"", "torchtitan", Pairs::by_hidden_size, false, true},
    {"InternEvo", "Megatron formula", Pairs::full, false, false, true, true},
    {"Colossal", "full", Pairs::full, false, false, false, true},
    {"", "AutoModel formula", Pairs::causal},
    {"", "MaxText formula", Pairs::full},
    {"", "causal", Pairs::causal},
    {"", "full (not halved) attention", Pairs::full},
}};

const Convention* convention_of(const PublishedRow& row) {
  if (!row.measured.mfu_convention) return nullptr;
  const auto* found = std::ranges::find_if(conventions, [&](const Convention& of) {
    return has_words(row.framework, of.framework) &&
           row.measured.mfu_convention->find(of.phrase) != std::string::npos;
  });
  return found == conventions.end() ? nullptr : found;
}

// Parameters of one layer's attention that a token is multiplied with.
double attention_parameters(const PublishedModel& m) {
  const auto h = static_cast<double>(m.hidden_size),
             heads = static_cast<double>(m.num_attention_heads);
  const auto d = static_cast<double>(m.head_dim);
  if (!m.kv_lora_rank) return 2 * h * d * (heads + static_cast<double>(m.num_key_value_heads));
  const auto q = static_cast<double>(m.q_lora_rank.value_or(0)),
             kv = static_cast<double>(*m.kv_lora_rank);
  const auto rotary = static_cast<double>(*m.qk_rope_head_dim),
             value = static_cast<double>(*m.v_head_dim);
  const auto plain = static_cast<double>(*m.qk_nope_head_dim);
  const double query = q == 0 ? h * heads * d : q * (h + heads * d);
  return query + h * (kv + rotary) + kv * heads * (plain + value) + heads * value * h;
}

double dense_ffn_parameters(const PublishedModel& m, const Convention& by) {
  const auto h = static_cast<double>(m.hidden_size);
  if (by.has_usual_ffn) return 8 * h * h;
  return (m.gated_mlp ? 3 : 2) * h * static_cast<double>(m.intermediate_size);
}

double routed_ffn_parameters(const PublishedModel& m, const Convention& by) {
  const auto width = static_cast<double>(*m.moe_intermediate_size * *m.num_experts_per_tok +
                                         m.shared_expert_intermediate_size.value_or(0));
  const double router = by.counts_router ? static_cast<double>(*m.num_experts) : 0;
  return static_cast<double>(m.hidden_size) * ((m.gated_mlp ? 3 : 2) * width + router);
}

// Keys that a query is counted with, on average, in `layer`; windows are in every second one.
double keys(const PublishedRow& row, std::int64_t layer, const Convention& by) {
  const auto length = static_cast<double>(row.seq_len);
  const auto window = static_cast<double>(row.model.sliding_window.value_or(row.seq_len));
  const double reach = layer % 2 == 0 ? std::min(length, window) : length;
  return by.pairs == Pairs::causal ? reach - reach * reach / (2 * length) : reach;
}

// Flops of a query and a key, forward, all heads.
double flops_of_pair(const PublishedModel& m, const Convention& by) {
  const auto heads = static_cast<double>(m.num_attention_heads);
  if (m.kv_lora_rank) return 2 * heads * static_cast<double>(m.head_dim + *m.v_head_dim);
  if (by.pairs == Pairs::by_hidden_size) return 4 * static_cast<double>(m.hidden_size);
  return 4 * heads * static_cast<double>(m.head_dim);
}

double flops_of_layer(const PublishedRow& row, std::int64_t layer, const Convention& by) {
  const PublishedModel& m = row.model;
  const bool is_routed = m.is_moe() && layer >= m.first_k_dense_replace.value_or(0);
  const double ffn = is_routed ? routed_ffn_parameters(m, by) : dense_ffn_parameters(m, by);
  const double passes = by.counts_recompute && row.recompute == PublishedRecompute::full ? 4 : 3;
  return passes *
         (2 * (attention_parameters(m) + ffn) + flops_of_pair(m, by) * keys(row, layer, by));
}

// Of what no token is multiplied with: positions, biases and norms of GPT's layers, and the table
// where the head is another.
double further_parameters(const PublishedRow& row) {
  const PublishedModel& m = row.model;
  const auto h = static_cast<double>(m.hidden_size);
  const double positions = m.position == "learned" ? static_cast<double>(row.seq_len) * h : 0;
  const double table = m.tie_word_embeddings ? 0 : static_cast<double>(m.vocab_size) * h;
  return positions + table + static_cast<double>(m.num_hidden_layers) * 13 * h + 2 * h;
}

double flops_per_token(const PublishedRow& row, const Convention& by) {
  const PublishedModel& m = row.model;
  const auto h = static_cast<double>(m.hidden_size);
  const double head = h * static_cast<double>(m.vocab_size);
  double flops = 6 * head;
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer)
    flops += flops_of_layer(row, layer, by);
  if (by.counts_embedding) flops += 6 * further_parameters(row);
  // Each further token that is predicted has a layer, a projection of two hidden states, and a
  // head.
  const double further_layer = flops_of_layer(row, m.num_hidden_layers - 1, by);
  return flops +
         static_cast<double>(m.mtp_layers.value_or(0)) * (further_layer + 6 * (2 * h * h + head));
}

}  // namespace

std::optional<PrintedFlops> printed_flops(const PublishedRow& row) {
  const std::optional<double> tokens = row.tokens_per_device_s();
  const Convention* by = convention_of(row);
  if (!row.measured.tflops_per_device || !tokens || by == nullptr) return std::nullopt;
  PrintedFlops result;
  result.printed_per_s = *row.measured.tflops_per_device * 1e12;
  result.per_token = flops_per_token(row, *by);
  result.counted_per_s = result.per_token * *tokens;
  return result;
}

}  // namespace xt
