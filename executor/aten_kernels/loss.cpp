// Cross-entropy that leaves the gradient of the logits in their place.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

/// The label of a token that does not count.
constexpr std::int64_t ignored = -100;

// Of each row −log p of the label; the row becomes (p − onehot) / valid tokens. Rows that do not
// count are nothing, also where no token does.
at::Tensor differentiate(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& valid_tokens) {
  const at::Tensor is_ignored = labels == ignored, label = labels.clamp_min(0);
  const at::Tensor top = logits.amax(1, /*keepdim=*/true), logit = logits.gather(1, label);
  logits.sub_(top).exp_();
  const at::Tensor sum = logits.sum(1, true);
  logits.div_(sum * valid_tokens);
  const at::Tensor probability = (logit - top).exp_().div_(sum);
  logits.scatter_(1, label, (probability - 1).div_(valid_tokens));
  logits.masked_fill_(is_ignored, 0);
  return sum.log_().add_(top).sub_(logit).masked_fill_(is_ignored, 0);
}

void cross_entropy(const KernelCall& call) {
  const std::int64_t C = call.extent(0), V = call.extent(1);
  const at::Tensor valid_tokens = in(call, 1, {1}), given = out(call, 0, {C, V});
  const at::Tensor logits = wide(given);
  const at::Tensor losses = differentiate(logits, in(call, 0, {C, 1}), valid_tokens);
  if (!logits.is_same(given)) given.copy_(logits);
  const at::Tensor sum = losses.sum(at::kDouble).view({1});
  out(call, 1, {1}).add_((sum / valid_tokens).masked_fill_(sum == 0, 0));
}

}  // namespace

void enter_aten_loss(KernelTable& table) { entry(table, Kernel::cross_entropy) = cross_entropy; }

}  // namespace xt
