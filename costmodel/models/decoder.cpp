#include "costmodel/models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "costmodel/models/blocks.h"
#include "costmodel/models/eager_kernels.h"
#include "costmodel/models/exchange_in_pieces.h"
#include "costmodel/models/fp8_products.h"
#include "costmodel/models/further_tokens.h"
#include "costmodel/models/heads_first.h"
#include "costmodel/models/joined_products.h"
#include "costmodel/models/scaled_rotary.h"
#include "costmodel/models/stacked_heads.h"
#include "costmodel/models/tensor_ranks.h"
#include "costmodel/models/transformer_engine.h"
#include "costmodel/models/wide_norms.h"
#include "costmodel/models/wide_residuals.h"

namespace xt {

bool Architecture::is_sparse(std::int64_t layer) const {
  if (num_experts == 0 || layer < first_k_dense_replace) return false;
  if (std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) != mlp_only_layers.end())
    return false;
  return (layer + 1) % decoder_sparse_step == 0;
}

std::int64_t Architecture::sparse_layers() const {
  std::int64_t n = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) n += is_sparse(layer) ? 1 : 0;
  return n;
}

namespace {

// A ring does the work of a rank in as many steps as there are ranks.
std::int64_t attention_parts(const GraphOptions& options) {
  const std::int64_t cp = options.context_parallel;
  return options.context_exchange == ContextExchange::ring ? cp * cp : cp;
}

Piece whole(std::string name, std::int64_t rows, std::int64_t columns) {
  return {std::move(name), {rows, columns, 1}, 2, -1, 0};
}

// A learned vector for every position, added to what the token stands for.
//
// Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", §4.1
void build_positions(BlockWriter& write, const Architecture& model, std::int64_t T, ValueId y,
                     ValueId dy) {
  const std::int64_t E = model.hidden_size, S = model.max_position_embeddings;
  const ValueId positions = write.value({T, 1, 1}, ValueRole::positions);
  const ValueId added = write.value({T, E, 1});
  const GraphParameter table =
      write.parameter({S, E, 1}, false, {whole("embed_positions.weight", S, E)});
  write.forward(Kernel::embedding, "positions", {T, E, S}, {positions, table.value}, {added});
  write.forward(Kernel::add, "positions", {T * E}, {added}, {y});
  write.backward(Kernel::fill_zero, "positions", {S * E}, {}, {table.gradient});
  write.backward(Kernel::embedding_backward, "positions", {T, E, S}, {dy, positions},
                 {table.gradient});
}

// Tensor parallel ranks have some rows of the vocabulary each; a token has its row on one of them.
void build_embedding(OpGraph& graph, const Architecture& model, const GraphOptions& options) {
  graph.embedding.prefix = "model.";
  BlockWriter write(graph, graph.embedding);
  const std::int64_t T = graph.tokens, E = graph.width, V = graph.vocabulary;
  const std::int64_t R = options.residual_tokens();
  TensorRanks ranks(write, options, E);
  const ValueId tokens = write.value({T, 1, 1}, ValueRole::tokens);
  const ValueId output = write.value({R, E, 1}, ValueRole::output);
  const ValueId d_output = write.value({R, E, 1}, ValueRole::output_gradient);
  const ValueId y = model.has_dropout ? write.value({R, E, 1}) : output;
  const ValueId dy = model.has_dropout ? write.value({R, E, 1}) : d_output;
  const GraphParameter weight =
      write.part_of_parameter({V, E, 1}, {whole("embed_tokens.weight", V, E)});
  const ValueId partial = ranks.partial(y);
  write.forward(Kernel::embedding, "embed", {T, E, V}, {tokens, weight.value}, {partial});
  ranks.add_up(Pass::forward, "embed", partial, y);
  const ValueId mask = write.value({R, E, 1}, DType::uint8);
  if (model.has_dropout)
    write.backward(Kernel::dropout_backward, "embed", {R * E}, {d_output, mask}, {dy});
  if (model.position == Position::learned) build_positions(write, model, R, y, dy);
  if (model.has_dropout) write.forward(Kernel::dropout, "embed", {R * E}, {y}, {output, mask});
  if (!model.tie_word_embeddings)
    write.backward(Kernel::fill_zero, "embed", {V * E}, {}, {weight.gradient});
  const ValueId d_whole = ranks.whole(Pass::backward, "embed", dy);
  write.backward(Kernel::embedding_backward, "embed", {T, E, V}, {d_whole, tokens},
                 {weight.gradient});
}

void build_head(OpGraph& graph, const Architecture& model) {
  graph.head.prefix = "";
  BlockWriter write(graph, graph.head);
  const std::int64_t E = graph.width, V = graph.vocabulary;
  norm_parameter(write, model, "model.norm");
  if (!model.tie_word_embeddings)
    write.part_of_parameter({V, E, 1}, {whole("lm_head.weight", V, E)});
}

// Passes over a layer that its halves do not know of.
void rewrite(OpGraph& graph, Block& block, const GraphOptions& options) {
  if (options.stacks_heads) stack_heads(graph, block);
  if (options.puts_heads_first) put_heads_first(graph, block);
  if (options.widens_residuals) widen_residuals(graph, block);
  if (!options.is_compiled) use_eager_kernels(graph, block);
  if (!options.fuses_scaled_rotary) use_unfused_scaled_rotary(graph, block);
  if (options.widens_norms) widen_norms(graph, block);
  if (options.has_fp8_products && options.has_transformer_engine) {
    use_transformer_engine(graph, block, options.fp8_recipe);
  } else if (options.has_fp8_products) {
    use_fp8_products(graph, block);
  }
  if (options.joins_projections) join_projections(graph, block, options.joins_gradients);
  if (options.sums_branches) sum_branches(graph, block);
  if (options.exchanges_in_pieces) exchange_in_pieces(block, options.tensor_parallel);
}

// All predict alike, by layers of their own.
void build_further_tokens(OpGraph& graph, const Architecture& model, const GraphOptions& options) {
  graph.further_tokens = model.further_tokens;
  if (model.further_tokens == 0) return;
  const auto kind = static_cast<std::uint16_t>(graph.decoder.size());
  Architecture last = model;
  if (!model.is_windowed(model.num_hidden_layers - 1)) last.sliding_window = 0;
  graph.decoder.push_back(further_token_block(graph, last, options));
  rewrite(graph, graph.decoder.back(), options);
  graph.layers.insert(graph.layers.end(), static_cast<std::size_t>(model.further_tokens), kind);
}

}  // namespace

OpGraph build_decoder(const Architecture& model, const GraphOptions& options) {
  OpGraph graph;
  graph.tokens = options.tokens;
  graph.width = model.hidden_size;
  const std::int64_t ranks = options.tensor_parallel;
  graph.vocabulary = (model.vocab_size + ranks - 1) / ranks;
  graph.routed_rows = options.residual_tokens() * model.num_experts_per_tok;
  if (model.position == Position::rotary) graph.rotary_size = model.turned_size();
  graph.norm = norm_of(model);
  graph.dtype = options.dtype;
  graph.attention_parts = attention_parts(options);
  graph.ties_embedding = model.tie_word_embeddings;
  graph.constants = {model.rms_norm_eps,          model.rope_theta,      model.norm_topk_prob,
                     model.rope_scaling,          model.attention_scale, model.swiglu_limit,
                     model.routed_scaling_factor, model.n_group,         model.topk_group};
  build_embedding(graph, model, options);
  if (options.widens_residuals) widen_residuals(graph, graph.embedding);
  std::array<std::optional<std::uint16_t>, 4> kinds;
  Architecture unwindowed = model;
  unwindowed.sliding_window = 0;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const bool is_sparse = model.is_sparse(layer), is_windowed = model.is_windowed(layer);
    std::optional<std::uint16_t>& kind = kinds[(is_sparse ? 1u : 0u) + (is_windowed ? 2u : 0u)];
    if (!kind) {
      kind = static_cast<std::uint16_t>(graph.decoder.size());
      graph.decoder.push_back(
          decoder_block(graph, is_windowed ? model : unwindowed, options, is_sparse));
      rewrite(graph, graph.decoder.back(), options);
    }
    graph.layers.push_back(*kind);
  }
  build_further_tokens(graph, model, options);
  build_head(graph, model);
  return graph;
}

}  // namespace xt
