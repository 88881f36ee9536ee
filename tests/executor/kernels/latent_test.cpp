// What latent attention and gpt-oss have beside other families: columns that move, angles of a part
// of a head, a bounded activation.

#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

// Rows of x that go to each row of y, summed where there are more of them.
at::Tensor moved(const at::Tensor& x, std::int64_t from, std::int64_t n, std::int64_t rows) {
  const at::Tensor part = x.narrow(1, from, n);
  if (x.size(0) <= rows) return part.repeat_interleave(rows / x.size(0), 0);
  return part.reshape({rows, x.size(0) / rows, n}).sum(1);
}

void check_columns(DType dtype, std::int64_t R, std::int64_t Q) {
  const std::int64_t n = pick(1, 20), from = pick(0, 5), to = pick(0, 5);
  const std::int64_t W = from + n + pick(0, 5), U = to + n + pick(0, 5);
  const at::Tensor x = random({R, W}, dtype), before = random({Q, U}, dtype);
  const at::Tensor copied = garbage({Q, U}, dtype), added = before.clone();
  const std::vector<Extent> extents = {R, W, from, Q, U, to, n};
  run({Kernel::copy_columns, dtype, extents, {x}, {copied}});
  run({Kernel::add_columns, dtype, extents, {x}, {added}});
  at::Tensor want = at::zeros({Q, U}, at::kDouble);
  want.narrow(1, to, n).copy_(moved(x.to(at::kDouble), from, n, Q));
  expect_close(copied, want, dtype);
  expect_close(added, before.to(at::kDouble) + want, dtype);
}

TEST(Columns, GoToAsManyRowsAsThereAreOrAreSummed) {
  for (const DType dtype : activation_types) {
    const std::int64_t T = pick(1, 30), H = pick(2, 5);
    check_columns(dtype, T, T);
    check_columns(dtype, T, T * H);
    check_columns(dtype, T * H, T);
  }
}

at::Tensor table_of(std::int64_t T, std::int64_t D, const ModelConstants& constants) {
  const at::Tensor positions = at::arange(T, at::kLong), table = garbage({T, D});
  run({Kernel::rope_table, DType::fp32, {T, D}, {positions}, {table}, constants});
  return table;
}

// As complex numbers: those of a plane times e^{iφ}.
at::Tensor turned(const at::Tensor& planes, const at::Tensor& table) {
  const std::int64_t half = table.size(1) / 2;
  const at::Tensor wide = table.to(at::kDouble);
  const at::Tensor turn =
      at::complex(wide.narrow(1, 0, half).contiguous(), wide.narrow(1, half, half).contiguous());
  return at::view_as_real(at::view_as_complex(planes.contiguous()) * turn.unsqueeze(1));
}

TEST(Rope, TurnsAdjacentColumnsOfAPartOfAHeadAndBack) {
  for (const DType dtype : activation_types) {
    const std::int64_t T = pick(1, 40), H = pick(1, 4), D = 2 * pick(1, 12), first = pick(0, 9);
    const std::int64_t head = first + D + pick(0, 3);
    const at::Tensor table = table_of(T, D, {}), x = random({T, H, head}, dtype);
    const at::Tensor before = x.clone();
    at::Tensor want = x.to(at::kDouble);
    const at::Tensor part = want.narrow(2, first, D);
    part.copy_(turned(part.reshape({T, H, D / 2, 2}), table).reshape({T, H, D}));
    const std::vector<Extent> extents = {T, H, D, head, first, 1};
    run({Kernel::rope, dtype, extents, {table}, {x}});
    expect_close(x, want, dtype);
    run({Kernel::rope_backward, dtype, extents, {table}, {x}});
    expect_close(x, before.to(at::kDouble), dtype);
  }
}

// Against transformers' YaRN of 8 planes, factor 4, 64 tokens before, fast 4 and slow 1 turns.
TEST(Rope, ScalesFrequenciesByTurnsAndLengthensAnglesAsYarnDoes) {
  ModelConstants constants;
  constants.rope_theta = 10000;
  const at::Tensor plain = table_of(2, 16, constants)[1];
  constants.rope_scaling = {RopeScalingKind::yarn, 4, 1, 1, 64, 4, 1, true, 1.2};
  const at::Tensor table = table_of(2, 16, constants)[1];
  const auto angle = [](const at::Tensor& row, std::int64_t i) {
    return std::atan2(row[8 + i].item<double>(), row[i].item<double>());
  };
  const auto column = [](double turns) {
    return 16 * std::log(64 / (turns * 2 * M_PI)) / (2 * std::log(10000.0));
  };
  const double low = std::floor(column(4)), high = std::ceil(column(1));
  ASSERT_LT(low, high);
  for (std::int64_t i = 0; i < 8; ++i) {
    const double share = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(angle(table, i), angle(plain, i) * (share / 4 + 1 - share), 1e-6) << i;
    EXPECT_NEAR(std::hypot(table[i].item<double>(), table[8 + i].item<double>()), 1.2, 1e-6);
  }
}

TEST(ClampedSwiglu, AgreesWithAutogradOnBothSidesOfItsBounds) {
  for (const DType dtype : activation_types) {
    const std::int64_t T = pick(1, 40), F = pick(1, 60);
    ModelConstants constants;
    constants.swiglu_limit = 2;
    const at::Tensor gate_up = random({T, F, 2}, dtype) * 2, dact = random({T, F}, dtype);
    const at::Tensor act = garbage({T, F}, dtype), dgate_up = garbage({T, F, 2}, dtype);
    const at::Tensor of = leaf(gate_up);
    const at::Tensor gate = of.select(2, 0).clamp_max(2), up = of.select(2, 1).clamp(-2, 2);
    const at::Tensor want = gate * at::sigmoid(1.702f * gate) * (up + 1);
    differentiate(want, dact);
    run({Kernel::swiglu_clamped, dtype, {T, F}, {gate_up}, {act}, constants});
    run({Kernel::swiglu_clamped_backward, dtype, {T, F}, {dact, gate_up}, {dgate_up}, constants});
    expect_close(act, want, dtype);
    expect_close(dgate_up, of.grad(), dtype);
  }
}

}  // namespace
}  // namespace xt
