#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

void check_pairs(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const std::string_view field = "expert_parallel_overlap";
  if (!s.expert_parallel_overlap) return;
  if (!rules.pairs_micro_steps)
    request.problem(field, fmt::format("{} does not run two micro-steps at once", rules.name),
                    "engine megatron does; intra_layer_micro_batches of xtuner_v1 are alike");
  if (s.expert_parallel == 1)
    request.problem(field, "every rank has all experts, so no rows are exchanged",
                    "set expert_parallel, or leave it out");
  if (s.gradient_accumulation == 1)
    request.problem(field, "one micro-step has no other to hide behind",
                    "set gradient_accumulation");
  // Source: Megatron-LM, core/transformer/transformer_config.py, which asks for virtual stages
  if (s.pipeline_parallel > 1 && s.virtual_stages == 1 && rules.pairs_micro_steps)
    request.problem(field,
                    fmt::format("{} has pairs of micro-steps in a pipeline only where stages have "
                                "several chunks",
                                rules.name),
                    "set virtual_stages, or leave it out");
  const std::optional<Choice>& swap = request.fields().swap;
  if (swap && swap->kind != ChoiceKind::none)
    request.problem("swap", "not supported: swapping where micro-steps run in pairs",
                    "leave it out");
  // Source: Megatron-LM, core/transformer/transformer_config.py, which asks for the same
  const std::optional<Choice>& recompute = request.fields().recompute;
  const bool recomputes = !recompute || recompute->kind != ChoiceKind::none;
  if (recomputes && s.recompute_ops.is_all())
    request.problem(field, "layers that run in pairs are not recomputed whole",
                    "set recompute to none, or recompute_ops");
}

}  // namespace xt
