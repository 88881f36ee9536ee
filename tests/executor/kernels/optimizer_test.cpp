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

// Source: Jordan et al. 2024, "Muon", the algorithm in double precision
at::Tensor orthogonal(const at::Tensor& matrix) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kDouble);
  if (is_tall) x = x.t();
  x = x / (x.norm() + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor gram = x.mm(x.t());
    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram.mm(gram)).mm(x);
  }
  if (is_tall) x = x.t();
  return x * 0.2 * std::sqrt(static_cast<double>(std::max(matrix.size(0), matrix.size(1))));
}

TEST(Muon, MakesOrthogonalWhatIsThisRanksAndClearsTheRest) {
  for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {5, 9}, {9, 5}, {16, 16}, {33, 70}}) {
    const at::Tensor matrix = random({m, n});
    const at::Tensor want = orthogonal(matrix);
    run({Kernel::orthogonalise, DType::fp32, {m, n}, {}, {matrix}});
    expect_close(matrix, want, DType::fp32);
  }
  const at::Tensor own = random({4, 6}), other = random({4, 6});
  run({Kernel::orthogonalise, DType::fp32, {4, 6}, {}, {own, other}});
  EXPECT_EQ(other.abs().max().item<float>(), 0);
  // Singular values of about one, as the coefficients have it.
  const at::Tensor scaled = own / (0.2 * std::sqrt(6.0));
  EXPECT_NEAR(scaled.mm(scaled.t()).trace().item<double>() / 4, 1, 0.5);
}

TEST(Muon, LooksOneStepAheadOfItsMomentumAndDecaysApart) {
  StepConstants s;
  s.learning_rate = 1e-2;
  s.weight_decay = 0.1;
  s.momentum = 0.9;
  const std::int64_t n = 3001;
  const at::Tensor gradient = random({n}), momentum = random({n}), parameter = random({n});
  const at::Tensor want = 0.9 * momentum.to(at::kDouble) + gradient.to(at::kDouble);
  const at::Tensor ahead = gradient.to(at::kDouble) + 0.9 * want;
  const at::Tensor moved = parameter.to(at::kDouble) * (1 - 1e-3) - 1e-2 * ahead;
  const at::Tensor sum = at::tensor({1.f});
  run({Kernel::muon_momentum, DType::fp32, {n}, {sum}, {momentum, gradient}, {}, s});
  expect_close(momentum, want, DType::fp32);
  expect_close(gradient, ahead, DType::fp32);
  run({Kernel::muon_update, DType::fp32, {n}, {gradient, sum}, {parameter}, {}, s});
  expect_close(parameter, moved, DType::fp32);
}

TEST(Muon, ChangesNothingWhereTheNormIsNoNumber) {
  const at::Tensor sum = at::tensor({std::numeric_limits<float>::infinity()});
  const at::Tensor momentum = random({9}), gradient = random({9}), parameter = random({9});
  const at::Tensor before = momentum.clone(), kept = parameter.clone();
  run({Kernel::muon_momentum, DType::fp32, {9}, {sum}, {momentum, gradient}});
  run({Kernel::muon_update, DType::fp32, {9}, {gradient, sum}, {parameter}});
  EXPECT_TRUE(momentum.equal(before) && parameter.equal(kept));
}

}  // namespace
}  // namespace xt
