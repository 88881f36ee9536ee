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

void check_balance_loss(const Plan& plan, const EngineRules& rules, Request& request) {
  if (!plan.strategy.has_balance_loss) return;
  const auto refuse = [&](std::string_view why, std::string_view hint) {
    request.problem("balance_loss", std::string(why), std::string(hint));
  };
  if (!rules.is_executed)
    refuse(fmt::format("{} is priced without it", rules.name), "leave it out");
  if (!plan.architecture.is_moe()) refuse("a dense model has no experts to load", "leave it out");
  if (plan.architecture.has_sigmoid_router)
    refuse(fmt::format("a bias balances the experts of {}", plan.model_name),
           "set router_bias_update_speed");
  if (plan.strategy.sequence_parallel > 1)
    refuse("ranks that share a pack do not count its rows together", "set sequence_parallel to 1");
}

}  // namespace

void check_executed(const Plan& plan, const EngineRules& rules, Request& request) {
  check_balance_loss(plan, rules, request);
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
