#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

// Source: PyTorch, distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble and
// _check_torch_compile_compatibility; torchtitan, distributed/pipeline_parallel.py, which gives
// such schedules at least two stages a rank
void check_zero_bubble(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const std::string_view field = "pipeline_schedule";
  if (s.pipeline_schedule == ChunkOrder::one_forward_one_backward) return;
  if (!rules.splits_backward)
    request.problem(field, fmt::format("{} runs backward passes whole", rules.name),
                    "engine torchtitan can run them in two halves");
  if (s.pipeline_parallel == 1)
    request.problem(field, "one stage waits for no other",
                    "set pipeline_parallel, or leave it out");
  else if (s.virtual_stages == 1)
    request.problem(field, "zero_bubble is an order of stages of several chunks",
                    "set virtual_stages, or leave it out");
  if (s.is_compiled && rules.splits_backward)
    request.problem(field, "what is compiled has its backward pass whole", "set compile to false");
  const std::optional<Choice>& recompute = request.fields().recompute;
  if (!recompute || recompute->kind != ChoiceKind::none)
    request.problem(field, "not supported: layers that are computed again for two halves",
                    "set recompute to none");
}

}  // namespace xt
