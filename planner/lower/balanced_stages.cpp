#include "planner/lower/balanced_stages.h"

namespace xt {
namespace {

// Weights of the products of a block.
std::int64_t multiplied(const Block& block) {
  std::int64_t elements = 0;
  for (const GraphParameter& parameter : block.parameters)
    if (parameter.pieces.front().n_dimensions > 1) elements += parameter.elements;
  return elements;
}

}  // namespace

std::optional<std::vector<std::int64_t>> balanced_stages(const OpGraph& graph,
                                                         std::int64_t stages) {
  std::int64_t all = graph.vocabulary * graph.width;
  for (const std::uint16_t layer : graph.layers) all += multiplied(graph.decoder[layer]);
  std::vector<std::int64_t> before{0};
  std::int64_t taken = 0;
  const auto n = static_cast<std::int64_t>(graph.layers.size());
  for (std::int64_t i = 0; i < n; ++i) {
    taken += multiplied(graph.decoder[graph.layers[static_cast<std::size_t>(i)]]);
    const auto stage = static_cast<std::int64_t>(before.size());
    if (stage < stages && taken * stages > all * stage) before.push_back(i + 1);
  }
  const bool is_last_empty = before.back() == n;
  if (static_cast<std::int64_t>(before.size()) != stages || is_last_empty) return std::nullopt;
  before.push_back(n);
  return before;
}

}  // namespace xt
