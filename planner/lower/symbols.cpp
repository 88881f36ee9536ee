// What of a step the data decides: rows that experts receive, how long samples are, and how many
// tokens are none of a sample.

#include <algorithm>
#include <cmath>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

bool names_symbol(const OpGraph& graph, SymbolKind kind) {
  const Extent extent = Extent::of(static_cast<SymbolId>(kind));
  const auto names = [&](const GraphOp& op) {
    return std::ranges::find(op.work.extents, extent) != op.work.extents.end();
  };
  return std::ranges::any_of(graph.decoder, [&](const Block& block) {
    return std::ranges::any_of(block.forward, names) || std::ranges::any_of(block.backward, names);
  });
}

}  // namespace

// Who executes a step learns the symbols of each micro-batch; who prices it assumes one for all.
void Lowering::make_symbols() {
  const std::int64_t n = rules_.is_executed ? strategy_.intra_layer_micro_batches : 1;
  for (std::int64_t pack = 0; pack < n; ++pack)
    symbols_.push_back(symbols_of(static_cast<std::int16_t>(pack)));
}

PackSymbols Lowering::symbols_of(std::int16_t micro_batch) {
  const std::int64_t T = strategy_.pack_length, s = strategy_.sample_length;
  const std::int64_t rest = T % s;
  const std::int64_t parts = graph_.attention_parts;
  const std::int64_t squares = strategy_.sum_squared_lengths > 0 ? strategy_.sum_squared_lengths
                                                                 : T / s * s * s + rest * rest;
  PackSymbols symbols;
  symbols.sum_squared_lengths =
      build_.symbol(SymbolKind::sum_squared_lengths, -1, squares / parts, parts, micro_batch);
  symbols.longest_sample =
      build_.symbol(SymbolKind::longest_sample, -1, std::min(s, T), 1, micro_batch);
  if (names_symbol(graph_, SymbolKind::sample_tokens))
    symbols.sample_tokens =
        build_.symbol(SymbolKind::sample_tokens, -1, strategy_.rank_tokens(), 1, micro_batch);
  if (strategy_.expert_parallel == 1) return symbols;
  const std::int64_t rows =
      std::llround(strategy_.routing_imbalance * static_cast<double>(graph_.routed_rows));
  symbols.rows_received.resize(layers_.size());
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    for (const GraphOp& op : graph_.decoder[layers_[layer]].forward)
      if (op.work.kernel == Kernel::bind_rows)
        symbols.rows_received[layer] = build_.symbol(
            SymbolKind::rows_received, static_cast<std::int16_t>(layer), rows, 1, micro_batch);
  }
  return symbols;
}

}  // namespace xt
