// Norm of gradients, clipping by it, and AdamW. Whether a step counts is decided on the device.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

// In fp64: many gradients are too many for fp32.
void square_sum(const KernelCall& call) {
  const at::Tensor norm =
      at::linalg_vector_norm(call.inputs[0], 2, std::nullopt, /*keepdim=*/false, at::kDouble);
  out(call, 0, {1}).add_(norm.square());
}

// Source: PyTorch, torch.nn.utils.clip_grad_norm_
void clip(const KernelCall& call) {
  const at::Tensor norm = in(call, 0, {}).to(at::kDouble).sqrt_();
  const at::Tensor factor = call.step.max_grad_norm / (norm + 1e-6);
  const at::Tensor is_clipped = (factor < 1).logical_and(norm.isfinite());
  call.outputs[0].mul_(wide(factor.masked_fill(is_clipped.logical_not(), 1)));
}

// The fused kernel leaves all as it is where the sum of squares is no number.
void adamw(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  const StepConstants& s = call.step;
  const at::Tensor parameter = out(call, 0, {n});
  const at::Tensor update = at::full({}, static_cast<double>(s.update), beside(parameter));
  const at::Tensor is_lost = wide(is_update(call.inputs[1]).logical_not()).view({1});
  at::_fused_adamw_({parameter}, {in(call, 0, {n})}, {out(call, 1, {n})}, {out(call, 2, {n})}, {},
                    {update}, s.learning_rate, s.beta1, s.beta2, s.weight_decay, s.eps,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, is_lost);
}

}  // namespace

void enter_aten_optimizer(KernelTable& table) {
  entry(table, Kernel::square_sum) = square_sum;
  entry(table, Kernel::clip) = clip;
  entry(table, Kernel::adamw) = adamw;
}

}  // namespace xt
