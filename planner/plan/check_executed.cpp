#include <fmt/format.h>

#include "costmodel/models/config.h"
#include "planner/plan/check.h"

namespace xt {
namespace {

void check_executed_attention(const Plan& plan, const EngineRules& rules, Request& request) {
  const Architecture& a = plan.architecture;
  const std::int64_t sp = plan.strategy.sequence_parallel, kv = a.num_key_value_heads;
  if (a.rope_scaling.kind == RopeScalingKind::other)
    request.problem("engine",
                    fmt::format("{} scales rotary angles linearly, as Llama 3 or as YaRN does, and "
                                "{} scales them otherwise",
                                rules.name, plan.model_name),
                    "engine xtuner_v1 prices it");
  if (a.turned_size() != a.head_dim && !a.has_mla())
    request.problem(
        "engine",
        fmt::format("{} turns whole heads, and {} a part of each", rules.name, plan.model_name),
        "engine xtuner_v1 prices it");
  if (sp > 1 && a.has_sinks)
    request.problem("sequence_parallel",
                    fmt::format("{} does not spread attention sinks over ranks", rules.name),
                    "engine xtuner_v1 does");
  if (kv < sp)
    request.problem(
        "sequence_parallel",
        fmt::format("{} does not repeat {} key heads over {} ranks", rules.name, kv, sp),
        "engine xtuner_v1 does");
}

}  // namespace

void check_executed(const Plan& plan, const EngineRules& rules, Request& request) {
  if (!rules.is_executed) return;
  if (family_of(plan.architecture).is_executed) {
    check_executed_attention(plan, rules, request);
  } else {
    request.problem(
        "engine",
        fmt::format("{} does not execute {} models", rules.name, plan.architecture.model_type),
        "engine xtuner_v1 prices them");
  }
}

}  // namespace xt
