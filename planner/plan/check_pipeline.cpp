#include <fmt/format.h>

#include "planner/lower/pipeline.h"
#include "planner/plan/check.h"

namespace xt {
namespace {

void check_stages(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const std::int64_t layers = plan.architecture.num_hidden_layers;
  const std::int64_t chunks = s.pipeline_parallel * s.virtual_stages;
  if (!rules.has_pipelines)
    request.problem("pipeline_parallel", fmt::format("{} has no stages of layers", rules.name),
                    "engine megatron has");
  else if (s.virtual_stages > 1 && !rules.interleaves_chunks)
    request.problem("virtual_stages", fmt::format("{} gives a stage one chunk", rules.name),
                    "engine megatron interleaves several");
  if (s.ranks % s.pipeline_parallel != 0)
    request.problem("pipeline_parallel",
                    fmt::format("{} ranks are not divisible by {}", s.ranks, s.pipeline_parallel));
  if (s.pipeline_parallel > layers)
    request.problem("pipeline_parallel", fmt::format("{} layers are not enough for {} stages",
                                                     layers, s.pipeline_parallel));
  else if (chunks > layers && !(s.virtual_stages > 1 && counts_ends(layers, chunks)))
    request.problem("virtual_stages",
                    fmt::format("{} layers are not enough for {} stages of {} chunks", layers,
                                s.pipeline_parallel, s.virtual_stages));
}

}  // namespace

void check_pipeline(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  if (s.pipeline_parallel == 1) {
    if (s.virtual_stages > 1)
      request.problem("virtual_stages", "one stage has no other to take turns with",
                      "set pipeline_parallel, or leave it out");
    return;
  }
  check_stages(plan, rules, request);
  if (s.virtual_stages > 1 && s.gradient_accumulation % s.pipeline_parallel != 0)
    request.problem("virtual_stages",
                    fmt::format("chunks take turns for as many micro-steps as there are stages, "
                                "but {} are no multiple of {}",
                                s.gradient_accumulation, s.pipeline_parallel),
                    "set gradient_accumulation");
  const std::optional<Choice>& swap = request.fields().swap;
  if (swap && swap->kind != ChoiceKind::none)
    request.problem("swap", "not supported: swapping in a pipeline", "leave it out");
}

}  // namespace xt
