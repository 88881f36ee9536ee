#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

void check_further_tokens(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  if (plan.architecture.further_tokens == 0) return;
  constexpr const char* without = "further_tokens 0 prices a step without them";
  if (!rules.predicts_further) {
    request.problem("further_tokens",
                    fmt::format("{} predicts one token, {} has {} more", rules.name,
                                plan.model_name, plan.architecture.further_tokens),
                    fmt::format("engines xtuner_v1 and megatron can; {}", without));
    return;
  }
  const auto refuse = [&](std::string_view field, bool is_set, std::string_view where) {
    if (is_set)
      request.problem(field, fmt::format("not supported: further tokens {}", where), without);
  };
  refuse("further_tokens", plan.architecture.tie_word_embeddings, "where lm_head is the embedding");
  refuse("pipeline_parallel", s.pipeline_parallel > 1, "in a pipeline");
  refuse("tensor_parallel", s.tensor_parallel > 1, "where ranks share products");
  refuse("expert_parallel_overlap", s.expert_parallel_overlap, "where micro-steps run in pairs");
}

}  // namespace xt
