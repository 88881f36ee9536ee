#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

// The host updates what a rank has of weights that all ranks split.
void check_offload(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const std::string_view field = "offload_optimizer";
  if (s.offloads_parameters && !s.offloads_optimizer)
    request.problem("offload_parameters", "16-bit weights wait on the host with those in fp32 only",
                    "set offload_optimizer, or leave it out");
  if (!s.offloads_optimizer) return;
  if (!rules.updates_on_host)
    request.problem(field, fmt::format("{} updates on the device", rules.name),
                    "engine deepspeed can have it on the host; xtuner_v1 can swap the optimizer");
  if (s.zero < 3)
    request.problem(field, "not supported: an update on the host below stage 3 of ZeRO",
                    "set zero to 3");
  if (s.gradient_accumulation > 1)
    request.problem(field, "not supported: sums of gradients that wait on the host",
                    "set gradient_accumulation to 1");
  if (s.compute_dtype == DType::fp32)
    request.problem(field, "weights in fp32 alone are not modelled to wait on the host",
                    "set compute_dtype to bf16");
  if (!plan.profile.host_memory_bandwidth)
    request.problem(
        field, fmt::format("{} says nothing of the bandwidth of host memory", plan.machine_name));
}

}  // namespace xt
