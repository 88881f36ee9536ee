#include <numeric>

#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

struct Router {
  std::int64_t T = pick(1, 40), n = pick(2, 6), groups = pick(1, 5), chosen = pick(1, groups);
  std::int64_t X = n * groups, k = pick(1, std::min<std::int64_t>(chosen*n, 6));
  DType dtype = DType::fp32;
  at::Tensor logits, bias = random({X}) * 0.2;
  ModelConstants constants;

  Router(DType of, bool is_renormalised) : dtype(of), logits(random({T, X}, of)) {
    constants.norm_topk_prob = is_renormalised;
    constants.router_scale = 2.5;
    constants.router_groups = groups;
    constants.chosen_groups = chosen;
  }
};

// Scores with their bias, out of the groups whose two best sum up to most.
at::Tensor choice_of(const Router& r) {
  const at::Tensor scores = (r.logits.to(at::kFloat).sigmoid() + r.bias).to(at::kDouble);
  const at::Tensor by_group = scores.view({r.T, r.groups, r.n});
  const at::Tensor sums = std::get<0>(by_group.topk(2, -1)).sum(-1);
  const at::Tensor best = std::get<1>(sums.topk(r.chosen, -1));
  const at::Tensor is_in = at::zeros({r.T, r.groups}, at::kBool).scatter_(1, best, true);
  return by_group.masked_fill(is_in.logical_not().unsqueeze(-1), -1e9).view({r.T, r.X});
}

void check(const Router& r) {
  const at::Tensor weights = garbage({r.T, r.k}), dlogits = garbage({r.T, r.X}, r.dtype);
  const at::Tensor indices = at::empty({r.T, r.k}, at::kLong), dweights = random({r.T, r.k});
  const std::vector<Extent> extents = {r.T, r.X, r.k};
  run({Kernel::sigmoid_top_k,
       r.dtype,
       extents,
       {r.logits, r.bias},
       {weights, indices},
       r.constants});
  run({Kernel::sigmoid_top_k_backward,
       r.dtype,
       extents,
       {dweights, r.logits, indices},
       {dlogits},
       r.constants});
  const at::Tensor choice = choice_of(r);
  expect_close(choice.gather(1, indices), std::get<0>(choice.topk(r.k, -1)), DType::fp32);
  const at::Tensor of = leaf(r.logits);
  at::Tensor want = of.sigmoid().gather(1, indices);
  if (r.constants.norm_topk_prob) want = want / want.sum(-1, true);
  want = want * 2.5;
  differentiate(want, dweights);
  expect_close(weights, want, DType::fp32);
  // One expert that has all the weight has a gradient of nothing but rounding.
  if (r.k > 1 || !r.constants.norm_topk_prob) expect_close(dlogits, of.grad(), r.dtype);
}

TEST(SigmoidRouter, ChoosesWithinTheBestGroupsAndAgreesWithAutograd) {
  for (const DType dtype : activation_types)
    for (const bool is_renormalised : {true, false})
      for (int i = 0; i < 8; ++i) check(Router(dtype, is_renormalised));
}

TEST(SigmoidRouter, ChoosesByTheBiasButWeighsWithoutIt) {
  const at::Tensor logits = at::zeros({1, 4}), bias = at::tensor({0.f, 0.f, 0.3f, 0.1f});
  const at::Tensor weights = garbage({1, 2}), indices = at::empty({1, 2}, at::kLong);
  run({Kernel::sigmoid_top_k, DType::fp32, {1, 4, 2}, {logits, bias}, {weights, indices}});
  EXPECT_TRUE(indices.equal(at::tensor({2, 3}, at::kLong).view({1, 2})));
  EXPECT_TRUE(weights.equal(at::full({1, 2}, 0.5)));
  run({Kernel::sigmoid_top_k, DType::fp32, {1, 4, 2}, {logits}, {weights, indices}});
  EXPECT_TRUE(indices.equal(at::tensor({0, 1}, at::kLong).view({1, 2})));
}

TEST(RouterBias, MovesTowardsExpertsWithFewRowsAndNotInASkippedStep) {
  const at::Tensor load = at::zeros({4}), bias = at::tensor({0.5f, 0.f, -0.5f, 0.f});
  const at::Tensor counts = at::tensor({6, 2, 4, 4}, at::kLong), sum = at::ones({1});
  const at::Tensor indices = at::arange(4).repeat_interleave(counts).view({8, 2});
  StepConstants step;
  step.router_bias_update_speed = 0.25;
  run({Kernel::count_rows, DType::fp32, {8, 4, 2, 8}, {indices}, {load}});
  EXPECT_TRUE(load.equal(counts.to(at::kFloat)));
  const at::Tensor before = bias.clone(), nothing = at::full({1}, std::nan(""));
  run({Kernel::update_router_bias, DType::fp32, {4}, {load, nothing}, {bias}, {}, step});
  EXPECT_TRUE(bias.equal(before));
  run({Kernel::update_router_bias, DType::fp32, {4}, {load, sum}, {bias}, {}, step});
  EXPECT_TRUE(bias.equal(at::tensor({0.25f, 0.25f, -0.5f, 0.f})));
}

// What is routed behind the last sample is padding.
TEST(RouterBias, CountsRowsOfSamplesAlone) {
  const at::Tensor indices = at::tensor({0, 1, 1, 2, 3, 3}, at::kLong).view({3, 2});
  const at::Tensor load = at::ones({4});
  run({Kernel::count_rows, DType::fp32, {3, 4, 2, 2}, {indices}, {load}});
  EXPECT_TRUE(load.equal(at::tensor({2.f, 3.f, 2.f, 1.f})));
  run({Kernel::count_rows, DType::fp32, {3, 4, 2, 0}, {indices}, {load}});
  EXPECT_TRUE(load.equal(at::tensor({2.f, 3.f, 2.f, 1.f})));
}

}  // namespace
}  // namespace xt
