#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

struct Norm {
  std::int64_t T, E;
  DType dtype;
  at::Tensor x, weight, dy, y, rstd, dx, dweight;

  Norm(std::int64_t rows, std::int64_t columns, DType type)
      : T(rows),
        E(columns),
        dtype(type),
        x(random({T, E}, type)),
        weight(random({E}, type)),
        dy(random({T, E}, type)),
        y(garbage({T, E}, type)),
        rstd(garbage({T})),
        dx(garbage({T, E}, type)),
        dweight(garbage({E}, type)) {}

  void run_both() const {
    run({Kernel::rms_norm, dtype, {T, E}, {x, weight}, {y, rstd}});
    run({Kernel::rms_norm_backward, dtype, {T, E}, {dy, x, weight, rstd}, {dx, dweight}});
  }
};

void check(const Norm& norm) {
  const at::Tensor x = leaf(norm.x), weight = leaf(norm.weight);
  const at::Tensor rstd = (x.square().mean(-1, true) + 1e-6).rsqrt();
  const at::Tensor y = x * rstd * weight;
  differentiate(y, norm.dy);
  norm.run_both();
  expect_close(norm.y, y, norm.dtype);
  expect_close(norm.rstd, rstd.view(-1), DType::fp32);
  expect_close(norm.dweight, weight.grad(), norm.dtype);
  // With one column y is the sign of x times the weight: a gradient of nothing but rounding.
  if (norm.E > 1) expect_close(norm.dx, x.grad(), norm.dtype);
}

TEST(RmsNorm, AgreesWithAutograd) {
  for (const DType dtype : activation_types) {
    check(Norm(1, 1, dtype));
    check(Norm(1, 33, dtype));
    check(Norm(257, 1, dtype));
    for (int i = 0; i < 6; ++i) check(Norm(pick(1, 300), pick(16, 300), dtype));
  }
}

TEST(RmsNorm, GivesTheSameBitsWhateverTheNumberOfThreads) {
  const Norm alone(1000, 200, DType::fp32);
  alone.run_both();
  Norm shared = alone;
  shared.dx = garbage({1000, 200});
  shared.dweight = garbage({200});
  at::set_num_threads(3);
  shared.run_both();
  at::set_num_threads(1);
  EXPECT_TRUE(alone.dx.equal(shared.dx));
  EXPECT_TRUE(alone.dweight.equal(shared.dweight));
}

void check_layer_norm(std::int64_t T, std::int64_t E, DType dtype) {
  const at::Tensor x = random({T, E}, dtype), w = random({E}, dtype), dy = random({T, E}, dtype);
  const at::Tensor y = garbage({T, E}, dtype), moments = garbage({T, 2});
  const at::Tensor dx = garbage({T, E}, dtype), dw = garbage({E}, dtype);
  const at::Tensor x_leaf = leaf(x), w_leaf = leaf(w);
  const at::Tensor centred = x_leaf - x_leaf.mean(-1, true);
  const at::Tensor want = centred * (centred.square().mean(-1, true) + 1e-6).rsqrt() * w_leaf;
  differentiate(want, dy);
  run({Kernel::layer_norm, dtype, {T, E}, {x, w}, {y, moments}});
  run({Kernel::layer_norm_backward, dtype, {T, E}, {dy, x, w, moments}, {dx, dw}});
  expect_close(y, want, dtype);
  expect_close(moments.select(1, 0), x_leaf.mean(-1), DType::fp32);
  expect_close(dw, w_leaf.grad(), dtype);
  expect_close(dx, x_leaf.grad(), dtype);
}

TEST(LayerNorm, AgreesWithAutograd) {
  for (const DType dtype : activation_types) {
    check_layer_norm(1, 33, dtype);
    for (int i = 0; i < 6; ++i) check_layer_norm(pick(1, 300), pick(16, 300), dtype);
  }
}

}  // namespace
}  // namespace xt
