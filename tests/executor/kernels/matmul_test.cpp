#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

struct Case {
  std::int64_t m, n, k;
  DType dtype;
};

std::vector<Case> cases() {
  std::vector<Case> list = {{1, 1, 1, DType::fp32}, {1, 7, 1, DType::bf16}, {5, 1, 9, DType::fp32}};
  for (const DType dtype : activation_types)
    for (int i = 0; i < 5; ++i) list.push_back({pick(1, 70), pick(1, 90), pick(1, 130), dtype});
  return list;
}

TEST(Matmul, AgreesWithDoublePrecisionForwardAndBackward) {
  for (const auto& [m, n, k, dtype] : cases()) {
    const at::Tensor x = random({m, k}, dtype), weight = random({n, k}, dtype);
    const at::Tensor y = garbage({m, n}, dtype), dy = random({m, n}, dtype);
    const at::Tensor dx = garbage({m, k}, dtype), dweight = garbage({n, k}, dtype);
    const at::Tensor x_leaf = leaf(x), weight_leaf = leaf(weight);
    const at::Tensor want = x_leaf.mm(weight_leaf.t());
    differentiate(want, dy);
    run({Kernel::matmul, dtype, {m, n, k}, {x, weight}, {y}});
    run({Kernel::matmul_input_backward, dtype, {m, n, k}, {dy, weight}, {dx}});
    run({Kernel::matmul_weight_backward, dtype, {m, n, k}, {dy, x}, {dweight}});
    expect_close(y, want, dtype);
    expect_close(dx, x_leaf.grad(), dtype);
    expect_close(dweight, weight_leaf.grad(), dtype);
  }
}

TEST(Matmul, AddsABiasToEveryRowAndSumsRowsForItsGradient) {
  for (const auto& [m, n, k, dtype] : cases()) {
    const at::Tensor x = random({m, k}, dtype), weight = random({n, k}, dtype);
    const at::Tensor bias = random({n}, dtype), dy = random({m, n}, dtype);
    const at::Tensor y = garbage({m, n}, dtype), dbias = garbage({n}, dtype);
    const at::Tensor bias_leaf = leaf(bias);
    const at::Tensor want =
        x.to(at::kDouble).mm(weight.to(at::kDouble).t()) + bias_leaf.to(at::kDouble);
    differentiate(want, dy);
    run({Kernel::matmul, dtype, {m, n, k}, {x, weight, bias}, {y}});
    run({Kernel::sum_rows, dtype, {m, n}, {dy}, {dbias}});
    expect_close(y, want, dtype);
    expect_close(dbias, bias_leaf.grad(), dtype);
  }
}

TEST(Matmul, AddsToTheGradientThatIsThere) {
  for (const auto& [m, n, k, dtype] : cases()) {
    const at::Tensor x = random({m, k}, dtype), weight = random({n, k}, dtype);
    const at::Tensor dy = random({m, n}, dtype);
    const at::Tensor dx = random({m, k}, dtype), dweight = random({n, k}, dtype);
    const at::Tensor want_dx = dx.to(at::kDouble) + dy.to(at::kDouble).mm(weight.to(at::kDouble));
    const at::Tensor want_dweight =
        dweight.to(at::kDouble) + dy.to(at::kDouble).t().mm(x.to(at::kDouble));
    run({Kernel::matmul_input_backward_add, dtype, {m, n, k}, {dy, weight}, {dx}});
    run({Kernel::matmul_weight_backward_add, dtype, {m, n, k}, {dy, x}, {dweight}});
    expect_close(dx, want_dx, dtype);
    expect_close(dweight, want_dweight, dtype);
  }
}

TEST(Matmul, TakesOperandsOfAnyNumberOfDimensions) {
  const at::Tensor x = random({6, 2, 5}), weight = random({7, 10});
  const at::Tensor y = garbage({6, 7, 1});
  run({Kernel::matmul, DType::fp32, {6, 7, 10}, {x, weight}, {y}});
  expect_close(y, x.view({6, 10}).to(at::kDouble).mm(weight.to(at::kDouble).t()).view({6, 7, 1}),
               DType::fp32);
}

}  // namespace
}  // namespace xt
