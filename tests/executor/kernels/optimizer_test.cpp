#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

TEST(SquareSum, AddsToWhatIsThere) {
  for (const DType dtype : activation_types) {
    for (const std::int64_t n : {std::int64_t{1}, pick(2, 4095), std::int64_t{100000}}) {
      const at::Tensor x = random({n}, dtype), sum = at::tensor({3.f});
      run({Kernel::square_sum, dtype, {n}, {x}, {sum}});
      expect_close(sum, x.to(at::kDouble).square().sum().view(1) + 3, DType::fp32);
    }
  }
}

TEST(Clip, ScalesToTheLargestNormAllowedAndNeverUp) {
  StepConstants step;
  step.max_grad_norm = 2;
  const at::Tensor x = random({501}), before = x.clone();
  run({Kernel::clip, DType::fp32, {501}, {at::tensor({100.f})}, {x}, {}, step});
  expect_close(x, before.to(at::kDouble) * (2 / (10 + 1e-6)), DType::fp32);
  const at::Tensor small = before.clone();
  run({Kernel::clip, DType::fp32, {501}, {at::tensor({1.f})}, {small}, {}, step});
  EXPECT_TRUE(small.equal(before));
}

TEST(AdamW, FollowsPyTorchForSeveralSteps) {
  StepConstants s;
  s.learning_rate = 1e-2;
  s.beta2 = 0.95;
  s.weight_decay = 0.1;
  for (const std::int64_t n : {1, 17, 3001}) {
    at::Tensor parameter = random({n}), exp_avg = at::zeros({n}), exp_avg_sq = at::zeros({n});
    at::Tensor want = parameter.clone(), m = at::zeros({n}), v = at::zeros({n});
    at::Tensor count = at::zeros({1});
    for (s.update = 1; s.update <= 5; ++s.update) {
      at::Tensor gradient = random({n});
      const std::vector<at::Tensor> state{parameter, exp_avg, exp_avg_sq};
      run({Kernel::adamw, DType::fp32, {n}, {gradient, at::tensor({1.f})}, state, {}, s});
      count += 1;
      at::_fused_adamw_({want}, {gradient}, {m}, {v}, {}, {count}, s.learning_rate, s.beta1,
                        s.beta2, s.weight_decay, s.eps, false, false);
      expect_close(parameter, want.to(at::kDouble), DType::fp32);
      expect_close(exp_avg, m.to(at::kDouble), DType::fp32);
      expect_close(exp_avg_sq, v.to(at::kDouble), DType::fp32);
    }
  }
}

TEST(AdamW, ChangesNothingWhereTheNormIsNoNumber) {
  for (const float norm :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<at::Tensor> state{random({9}), random({9}), random({9})};
    const std::vector<at::Tensor> before{state[0].clone(), state[1].clone(), state[2].clone()};
    const at::Tensor gradient = at::full({9}, norm), sum = at::tensor({norm});
    run({Kernel::clip, DType::fp32, {9}, {sum}, {gradient}});
    run({Kernel::adamw, DType::fp32, {9}, {gradient, sum}, state});
    for (std::size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(state[i].equal(before[i])) << i;
  }
}

}  // namespace
}  // namespace xt
