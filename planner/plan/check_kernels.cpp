#include <fmt/format.h>

#include "planner/plan/check.h"

namespace xt {

void check_kernels(const Plan& plan, const EngineRules& rules, Request& request) {
  const Strategy& s = plan.strategy;
  const Architecture& a = plan.architecture;
  if (!s.is_compiled && !rules.has_eager_kernels)
    request.problem("compile", fmt::format("{} has fused kernels only", rules.name),
                    "engine torchtitan also runs op by op");
  const bool shares_loss = s.tensor_parallel > 1 && !rules.has_transformer_engine;
  if (s.compiles_loss && (!rules.may_compile_loss || !s.is_compiled || shares_loss))
    request.problem("compile_loss",
                    "only torchtitan compiles its loss, where it compiles layers, and megatron",
                    "leave it out, or take Liger's on accelerate or deepspeed; tensor parallel "
                    "ranks of torchtitan share a loss op by op");
  if (s.returns_logits && !rules.may_return_logits)
    request.problem("return_logits", fmt::format("{} keeps no logits beside its loss", rules.name),
                    "leave it out; engine deepspeed runs models that do");
  else if (s.returns_logits && s.compiles_loss)
    request.problem("return_logits", "a compiled loss reads the logits that there are",
                    "leave out compile_loss");
  if (!s.fuses_experts && !rules.has_eager_kernels)
    request.problem("fused_experts",
                    fmt::format("{} has fused kernels for experts only", rules.name),
                    "engine torchtitan also runs them op by op");
  else if (!s.fuses_experts && (s.expert_parallel > 1 || !a.is_moe()))
    request.problem("fused_experts", "rows are gathered op by op where a rank has all experts",
                    "leave it out");
  if (!s.recompute_ops.is_all() && !rules.drops_by_op)
    request.problem("recompute_ops", fmt::format("{} recomputes whole layers", rules.name),
                    "engine torchtitan can recompute some ops of a layer");
  if (request.fields().recompute_early_stop && !rules.recomputes_to_end)
    request.problem(
        "recompute_early_stop",
        fmt::format("{} always recomputes {}", rules.name,
                    rules.stops_early() ? "what a backward pass reads" : "whole layers"),
        "leave it out; engine torchtitan does either");
  if (s.reduce_dtype != DType::bf16 && s.reduce_dtype != DType::fp32)
    request.problem("reduce_dtype", "gradients are reduced in bf16 or fp32");
  else if (request.fields().reduce_dtype == DType::bf16 && s.compute_dtype == DType::fp32)
    request.problem("reduce_dtype", "a step in fp32 also reduces its gradients in fp32");
  if (request.fields().reduce_bucket && rules.reduce_bucket == 0)
    request.problem("reduce_bucket", fmt::format("{} reduces gradients unit by unit", rules.name),
                    "engine deepspeed puts them together");
  if (a.position == Position::learned && s.sample_length > a.max_position_embeddings)
    request.problem("pack_length",
                    fmt::format("{} has {} positions, samples have {} tokens", plan.model_name,
                                a.max_position_embeddings, s.sample_length),
                    "set sample_length");
}

}  // namespace xt
