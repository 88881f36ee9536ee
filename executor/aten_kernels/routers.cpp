// Routers by softmax and by sigmoid, what a router's bias learns by, and the auxiliary loss;
// sources and formulas are those of executor/kernels.

#include <limits>

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

constexpr double excluded = -std::numeric_limits<double>::infinity();

struct Router {
  std::int64_t T, X, k;
  bool is_renormalised;

  explicit Router(const KernelCall& call)
      : T(call.extent(0)),
        X(call.extent(1)),
        k(call.extent(2)),
        is_renormalised(call.constants.norm_topk_prob) {}
};

// The k best of each row, of equals the first: topk() promises no order among them.
at::Tensor best(const at::Tensor& scores, std::int64_t k) {
  return std::get<1>(at::sort(scores, /*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, k);
}

void softmax_top_k(const KernelCall& call) {
  const Router of(call);
  const at::Tensor logits = wide(in(call, 0, {of.T, of.X})), indices = out(call, 1, {of.T, of.k});
  indices.copy_(best(logits, of.k));
  const at::Tensor weights = of.is_renormalised ? logits.gather(1, indices).softmax(1)
                                                : logits.softmax(1).gather(1, indices);
  out(call, 0, {of.T, of.k}).copy_(weights);
}

// dlogits = p · (dp − Σ p·dp), p the softmax over the chosen experts or, if it was not
// renormalised, over all of them; dp is zero but for the chosen.
void softmax_top_k_backward(const KernelCall& call) {
  const Router of(call);
  const at::Tensor dweights = in(call, 0, {of.T, of.k}), indices = in(call, 2, {of.T, of.k});
  const at::Tensor logits = wide(in(call, 1, {of.T, of.X}));
  const at::Tensor chosen = of.is_renormalised ? logits.gather(1, indices).softmax(1)
                                               : logits.softmax(1).gather(1, indices);
  const at::Tensor along = (chosen * dweights).sum(1, /*keepdim=*/true);
  const at::Tensor gradient =
      of.is_renormalised ? at::zeros_like(logits) : logits.softmax(1).mul_(-along);
  gradient.scatter_(1, indices, chosen * (dweights - along));
  out(call, 0, {of.T, of.X}).copy_(gradient);
}

// Scores in other than the best groups by the sum of their two best are excluded.
at::Tensor within_groups(const at::Tensor& scores, const ModelConstants& constants) {
  const std::int64_t T = scores.size(0), groups = constants.router_groups;
  if (groups == constants.chosen_groups) return scores;
  const at::Tensor by_group = scores.view({T, groups, scores.size(1) / groups});
  const std::int64_t n = std::min<std::int64_t>(2, by_group.size(2));
  const at::Tensor sums = std::get<0>(by_group.topk(n, 2)).sum(2);
  const at::Tensor is_out = at::ones({T, groups}, beside(scores, at::kBool));
  is_out.scatter_(1, best(sums, constants.chosen_groups), false);
  return by_group.masked_fill(is_out.unsqueeze(2), excluded).view(scores.sizes());
}

// What divides the scores of the chosen: their sum, or nothing.
at::Tensor divisor(const at::Tensor& scores, const Router& of) {
  if (!of.is_renormalised) return at::ones({}, scores.options());
  return scores.sum(1, true).add_(1e-20);
}

void sigmoid_top_k(const KernelCall& call) {
  const Router of(call);
  const at::Tensor scores = wide(in(call, 0, {of.T, of.X})).sigmoid();
  const at::Tensor biased = call.inputs.size() > 1 ? scores + in(call, 1, {of.X}) : scores;
  const at::Tensor indices = out(call, 1, {of.T, of.k});
  indices.copy_(best(within_groups(biased, call.constants), of.k));
  const at::Tensor chosen = scores.gather(1, indices);
  out(call, 0, {of.T, of.k})
      .copy_((chosen / divisor(chosen, of)).mul_(call.constants.router_scale));
}

// With w = s · scale / Σs over the chosen, ds = (dw − Σ dw·s / Σs) · scale / Σs; without the sum,
// ds = dw · scale. dlogit = ds · s · (1 − s); nothing for those not chosen.
void sigmoid_top_k_backward(const KernelCall& call) {
  const Router of(call);
  const at::Tensor dweights = in(call, 0, {of.T, of.k}), indices = in(call, 2, {of.T, of.k});
  const at::Tensor s = wide(in(call, 1, {of.T, of.X})).gather(1, indices).sigmoid_();
  const at::Tensor sum = divisor(s, of);
  at::Tensor ds = dweights;
  if (of.is_renormalised) ds = ds - (dweights * s).div_(sum).sum(1, true);
  const at::Tensor of_chosen = ds * s * (1 - s) * (call.constants.router_scale / sum);
  const at::Tensor gradient = at::zeros({of.T, of.X}, beside(s));
  gradient.scatter_(1, indices, of_chosen);
  out(call, 0, {of.T, of.X}).copy_(gradient);
}

// Adds p · (G − Σ p·G) to the gradient of the logits, and Σ p·G to the loss, with G = α · X · F.
void balance_backward(const KernelCall& call) {
  const Router of(call);
  const std::int64_t counted = call.extent(4);
  if (counted == 0) return;
  const double rows = static_cast<double>(counted * call.extent(3));
  const double factor = call.step.balance_loss * static_cast<double>(of.X) / rows / rows;
  const at::Tensor weights = in(call, 1, {1, of.X}) * factor;
  const at::Tensor p = wide(in(call, 0, {of.T, of.X}).narrow(0, 0, counted)).softmax(1);
  const at::Tensor along = (p * weights).sum(1, true);
  out(call, 0, {of.T, of.X}).narrow(0, 0, counted).add_(p * (weights - along));
  out(call, 1, {1}).add_(along.sum(at::kDouble));
}

void count_rows(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  const at::Tensor counted = in(call, 0, {T, k}).narrow(0, 0, call.extent(3)).reshape({-1});
  const at::Tensor counts = at::zeros({X}, counted.options());
  counts.index_add_(0, counted, at::ones_like(counted));
  out(call, 0, {X}).add_(counts);
}

// Up where an expert got fewer rows than the mean, down where it got more; a step whose gradients
// are no numbers changes nothing.
void update_router_bias(const KernelCall& call) {
  const std::int64_t X = call.extent(0);
  const at::Tensor load = in(call, 0, {X}).to(at::kDouble);
  const at::Tensor change = wide(load.mean().sub(load).sign_());
  const at::Tensor keeps = is_update(call.inputs[1]);
  out(call, 0, {X}).add_(change * keeps, call.step.router_bias_update_speed);
}

}  // namespace

void enter_aten_routers(KernelTable& table) {
  entry(table, Kernel::softmax_top_k) = softmax_top_k;
  entry(table, Kernel::softmax_top_k_backward) = softmax_top_k_backward;
  entry(table, Kernel::sigmoid_top_k) = sigmoid_top_k;
  entry(table, Kernel::sigmoid_top_k_backward) = sigmoid_top_k_backward;
  entry(table, Kernel::balance_backward) = balance_backward;
  entry(table, Kernel::count_rows) = count_rows;
  entry(table, Kernel::update_router_bias) = update_router_bias;
}

}  // namespace xt
