#include <fmt/format.h>

#include "planner/lower/balanced_stages.h"
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
                    "engines megatron and torchtitan have");
  else if (s.virtual_stages > 1 && !rules.interleaves_chunks)
    request.problem("virtual_stages", fmt::format("{} gives a stage one chunk", rules.name),
                    "engine megatron interleaves several");
  if (s.ranks % s.pipeline_parallel != 0)
    request.problem("pipeline_parallel",
                    fmt::format("{} ranks are not divisible by {}", s.ranks, s.pipeline_parallel));
  if (!s.pipeline_layers.empty()) return;
  if (s.pipeline_parallel > layers)
    request.problem("pipeline_parallel", fmt::format("{} layers are not enough for {} stages",
                                                     layers, s.pipeline_parallel));
  else if (chunks > layers && !(s.virtual_stages > 1 && counts_ends(layers, chunks)))
    request.problem("virtual_stages",
                    fmt::format("{} layers are not enough for {} stages of {} chunks", layers,
                                s.pipeline_parallel, s.virtual_stages));
}

// What a stage of fully sharded units has no answer to.
void check_sharded_stages(const Plan& plan, Request& request) {
  const Strategy& s = plan.strategy;
  if (s.zero < 3) return;
  if (request.fields().reshard_after_forward.value_or(false))
    request.problem("reshard_after_forward",
                    "layers of a stage stay gathered until its last micro-batch is through",
                    "leave it out");
  if (s.shard_ranks != 0)
    request.problem("shard_ranks", "not supported: replicated parameters in a pipeline",
                    "leave it out");
  if (s.has_fp8_products)
    request.problem("fp8_products", "not supported: weights gathered in fp8 in a pipeline",
                    "leave it out");
}

// Where a chunk's backward pass follows its forward pass at once, nothing is gained.
void check_offload_share(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  if (s.offload_share == 0) return;
  if (!rules.offloads_chunks)
    request.problem("offload_share",
                    fmt::format("{} keeps what its chunks need on the device", rules.name),
                    "engine megatron offloads it, as Megatron-Kwai does");
  else if (s.pipeline_parallel == 1)
    request.problem("offload_share", "chunks of a pipeline are offloaded, and there is none",
                    "set pipeline_parallel, or leave it out");
  else if (s.gradient_accumulation == 1)
    request.problem("offload_share", "a single micro-step needs at once what it has just kept",
                    "set gradient_accumulation, or leave it out");
  if (plan.architecture.is_moe())
    request.problem("offload_share",
                    "not supported: as many rows of experts as the router decides on",
                    "leave it out");
}

}  // namespace

void check_pipeline(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  check_offload_share(plan, rules, request);
  check_cut(plan, rules, request);
  check_zero_bubble(plan, rules, request);
  if (s.pipeline_parallel == 1) {
    if (s.virtual_stages > 1)
      request.problem("virtual_stages", "one stage has no other to take turns with",
                      "set pipeline_parallel, or leave it out");
    return;
  }
  check_stages(plan, rules, request);
  check_sharded_stages(plan, request);
  if (s.virtual_stages > 1 && s.gradient_accumulation % s.pipeline_parallel != 0)
    request.problem("virtual_stages",
                    fmt::format("chunks take turns for as many micro-steps as there are stages, "
                                "but {} are no multiple of {}",
                                s.gradient_accumulation, s.pipeline_parallel),
                    "set gradient_accumulation");
}

void check_balance(const Plan& plan, const EngineRules& rules, Request& request) {
  const std::int64_t stages = plan.strategy.pipeline_parallel;
  if (stages == 1 || !rules.balances_stages || balanced_stages(graph_of(plan), stages)) return;
  request.problem("pipeline_parallel",
                  fmt::format("{} gives stages equal products, lm_head's among them, which leaves "
                              "one of {} without a layer",
                              rules.name, stages),
                  "set it lower, or take engine megatron");
}

}  // namespace xt
