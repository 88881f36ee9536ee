#include "costmodel/models/parameter_counts.h"

#include "costmodel/models/decoder.h"
#include "costmodel/units/format.h"

namespace xt {
namespace {

std::int64_t expert_elements(const Block& block) {
  std::int64_t sum = 0;
  for (const GraphParameter& parameter : block.parameters)
    if (parameter.is_expert) sum += parameter.elements;
  return sum;
}

}  // namespace

ParameterCounts parameter_counts(const Architecture& architecture) {
  const OpGraph graph = build_decoder(architecture, {.tokens = 1, .dtype = DType::bf16});
  const std::int64_t all = count_parameters(graph, 1);
  if (!architecture.is_moe()) return {all, all};
  std::int64_t of_experts = 0;
  for (const std::uint16_t layer : graph.layers)
    of_experts += expert_elements(graph.decoder[layer]);
  const std::int64_t of_expert = of_experts / architecture.num_experts;
  return {all, all - (architecture.num_experts - architecture.num_experts_per_tok) * of_expert};
}

std::string in_billions(std::int64_t parameters) {
  return significant(static_cast<double>(parameters) * 1e-9, 4);
}

}  // namespace xt
