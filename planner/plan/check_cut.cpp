#include <fmt/format.h>

#include <numeric>

#include "planner/plan/check.h"

namespace xt {
namespace {

constexpr std::string_view field = "pipeline_layers";

std::string parts_text(const Strategy& s) {
  return s.virtual_stages == 1
             ? fmt::format("{} stages", s.pipeline_parallel)
             : fmt::format("{} stages of {} chunks", s.pipeline_parallel, s.virtual_stages);
}

// Whether what the engine takes from its user can say such a cut.
bool takes_cut(const Strategy& s, const EngineRules& rules, Request& request) {
  if (rules.hand_cut == HandCut::none)
    request.problem(field, fmt::format("{} cuts the layers of a pipeline itself", rules.name),
                    "engines megatron, mindspeed, mindformers and torchtitan take a cut");
  else if (rules.hand_cut == HandCut::stages && s.virtual_stages > 1)
    request.problem(field,
                    fmt::format("{} takes layers of stages, not of their chunks", rules.name),
                    "leave out virtual_stages, or take engine megatron");
  else
    return true;
  return false;
}

// A part between others has to do something with what it passes on.
void check_bare_parts(const Strategy& s, const EngineRules& rules, Request& request) {
  const std::vector<std::int64_t>& layers = s.pipeline_layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] > 0) continue;
    const std::string at = fmt::format("{}[{}]", field, i);
    if (rules.hand_cut != HandCut::bare_ends)
      request.problem(at, fmt::format("{} gives each part a layer", rules.name),
                      "engine megatron leaves embedding and loss alone");
    else if (i > 0 && i + 1 < layers.size())
      request.problem(at, fmt::format("part {} would only pass on what it receives", i),
                      "only the first part, which embeds, and the last, which has the loss, may "
                      "have no layer");
  }
}

}  // namespace

void check_cut(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  if (!request.fields().pipeline_layers) return;
  const std::int64_t layers = plan.architecture.num_hidden_layers;
  const std::int64_t parts = s.pipeline_parallel * s.virtual_stages;
  const auto given = static_cast<std::int64_t>(s.pipeline_layers.size());
  const std::int64_t sum =
      std::accumulate(s.pipeline_layers.begin(), s.pipeline_layers.end(), std::int64_t{0});
  if (s.pipeline_parallel == 1) {
    request.problem(field, "one stage has all layers", "set pipeline_parallel, or leave it out");
    return;
  }
  if (!takes_cut(s, rules, request)) return;
  if (given != parts)
    request.problem(field, fmt::format("{} numbers of layers for {}", given, parts_text(s)),
                    fmt::format("give {}, one a part in the model's order", parts));
  if (sum != layers)
    request.problem(field, fmt::format("{} has {} layers, but the parts have {}", plan.model_name,
                                       layers, sum));
  check_bare_parts(s, rules, request);
}

}  // namespace xt
