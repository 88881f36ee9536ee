#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

void check_overlap(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const std::string_view field = "communication_overlap";
  if (s.communication_overlap) return;
  if (!rules.may_overlap_nothing)
    request.problem(field, fmt::format("{} has no step without overlap", rules.name),
                    "engines xt_run and megatron have");
  for (const auto& [other, is_set] :
       {std::pair{"tensor_parallel_overlap", s.tensor_parallel_overlap},
        std::pair{"expert_parallel_overlap", s.expert_parallel_overlap}})
    if (is_set)
      request.problem(other, "exchanges run beside nothing, as communication_overlap is false",
                      "leave out one of them");
}

}  // namespace xt
