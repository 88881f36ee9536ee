#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {
namespace {

void check_learning_rate(const Plan& plan, Request& request) {
  const PlanOptimizer& o = plan.optimizer;
  if (o.min_learning_rate > o.learning_rate)
    request.problem("min_learning_rate", fmt::format("{} is above the learning rate, which is {}",
                                                     o.min_learning_rate, o.learning_rate));
  if (o.learning_rate_schedule == LearningRateSchedule::constant) {
    const char* hint = "set learning_rate_schedule to linear or cosine, or leave it out";
    if (request.fields().decay_steps)
      request.problem("decay_steps", "a constant learning rate does not fall", hint);
    if (request.fields().min_learning_rate)
      request.problem("min_learning_rate", "a constant learning rate does not fall", hint);
  } else if (!request.fields().decay_steps) {
    request.problem("learning_rate_schedule", "it is not said by which step it has fallen",
                    "set decay_steps, as to the number of steps of the run");
  } else if (o.decay_steps <= o.warmup_steps) {
    request.problem("decay_steps", fmt::format("it has fallen at step {}, but rises until step {}",
                                               o.decay_steps, o.warmup_steps));
  }
}

}  // namespace

void check_optimizer(const Plan& plan, const EngineRules& rules, Request& request) {
  check_learning_rate(plan, request);
  if (request.fields().router_bias_update_speed && !plan.architecture.has_sigmoid_router)
    request.problem("router_bias_update_speed",
                    fmt::format("no bias chooses the experts of {}", plan.model_name),
                    "leave it out");
  const Strategy& s = plan.strategy;
  if (s.swaps_optimizer && !rules.swaps_optimizer)
    request.problem("swap_optimizer",
                    fmt::format("{} keeps the optimizer on the device", rules.name),
                    "engines xt_run and xtuner_v1 can swap it");
  if (s.optimizer != Optimizer::muon) return;
  if (!rules.has_muon)
    request.problem("optimizer", fmt::format("{} has no Muon", rules.name), "engine xtuner_v1 has");
  if (s.swaps_optimizer)
    request.problem("swap_optimizer", "Muon keeps its momentum on the device", "leave it out");
  if (!rules.is_executed && !plan.profile.peak(DType::bf16))
    request.problem("optimizer",
                    fmt::format("{} has no products in bf16, which Muon needs", plan.machine_name));
}

}  // namespace xt
