#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

// Scores are tensors of equally long samples, of which a rank has all tokens.
void check_attention(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const Architecture& a = plan.architecture;
  const auto problem = [&](std::string message, std::string hint = {}) {
    request.problem("attention_kernel", std::move(message), std::move(hint));
  };
  if (s.fuses_attention) {
    if (a.has_attention_dropout)
      request.problem("model", "dropout of attention is not modelled within fused kernels",
                      "set attn_pdrop to 0, or attention_kernel to unfused");
    return;
  }
  if (!rules.has_unfused_attention)
    problem(fmt::format("{} has fused attention only", rules.name),
            "engines megatron and deepspeed keep scores");
  const auto* fixed = std::get_if<FixedLength>(&plan.data.lengths.shape);
  if (fixed == nullptr || s.pack_length % fixed->tokens != 0)
    problem("samples of unequal length have no scores of one shape",
            "give one sample_length that divides the pack");
  if (a.has_mla() || a.sliding_window > 0 || a.has_sinks)
    problem(fmt::format("scores of {} are not modelled: latent attention, windows or sinks",
                        plan.model_name));
  if (s.context_parallel > 1 || s.sequence_parallel > 1)
    problem("scores of a pack that ranks share are not modelled",
            "leave out context_parallel and sequence_parallel");
}

}  // namespace xt
