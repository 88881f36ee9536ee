#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {
namespace {

void check_recipe(const Plan& plan, const EngineRules& rules, Request& request) {
  const RunFile& from = request.fields();
  if (!plan.strategy.has_fp8_products) {
    for (const auto& [field, is_set] : {std::pair{"fp8_recipe", from.fp8_recipe.has_value()},
                                        std::pair{"fp8_param_gather", plan.strategy.gathers_fp8}})
      if (is_set)
        request.problem(field, "no product runs in fp8", "set fp8_products, or leave it out");
    return;
  }
  if (from.fp8_recipe && !rules.has_transformer_engine)
    request.problem("fp8_recipe", fmt::format("{} has one way to scale operands", rules.name),
                    "engine megatron has several");
  if (plan.strategy.fp8_recipe == Fp8Recipe::mxfp8)
    request.problem(
        "fp8_recipe",
        fmt::format("{} says nothing of products with a scale for 32 elements", plan.machine_name),
        "set delayed, tensorwise or blockwise");
  const bool splits_weights = rules.least_zero == 3;
  if (from.fp8_param_gather &&
      (!rules.has_transformer_engine || (splits_weights && !plan.strategy.gathers_fp8)))
    request.problem("fp8_param_gather",
                    fmt::format("{} always gathers weights of fp8 products in fp8", rules.name),
                    "leave it out");
}

}  // namespace

void check_transformer_engine(const Plan& plan, const EngineRules& rules, Request& request) {
  check_recipe(plan, rules, request);
  const Strategy& s = plan.strategy;
  const std::string_view field = "tensor_parallel_overlap";
  if (!s.tensor_parallel_overlap) return;
  if (!rules.exchanges_in_pieces)
    request.problem(field, fmt::format("{} does not exchange in pieces", rules.name),
                    "engine megatron does");
  // Source: MindSpeed, docs/features/mc2.md
  if (!rules.has_transformer_engine && plan.architecture.is_moe())
    request.problem(field, fmt::format("{} does not where there are experts", rules.name),
                    "engine megatron does");
  if (s.tensor_parallel == 1 || !s.tensor_sequence_parallel)
    request.problem(field, "only ranks that share tokens gather and scatter them",
                    "set tensor_parallel, and leave out tensor_sequence_parallel");
  // Buffers that all ranks of a node see.
  //
  // Source: Transformer Engine, common/comm_gemm_overlap/userbuffers
  if (s.tensor_parallel > plan.profile.ranks_per_node())
    request.problem(field, fmt::format("{} ranks do not fit a node of {} ranks", s.tensor_parallel,
                                       plan.profile.ranks_per_node()));
}

}  // namespace xt
