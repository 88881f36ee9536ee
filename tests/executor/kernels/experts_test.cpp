#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

// Rows of each expert from each rank; often none.
at::Tensor random_counts(std::int64_t ep, std::int64_t X) {
  const at::Tensor counts = at::zeros({ep, X}, at::kLong);
  for (std::int64_t rank = 0; rank < ep; ++rank)
    for (std::int64_t x = 0; x < X; ++x) counts[rank][x] = std::max<std::int64_t>(0, pick(-8, 16));
  return counts;
}

struct Groups {
  std::int64_t ep = pick(1, 4), X = pick(1, 6);
  at::Tensor counts = random_counts(ep, X);
  std::int64_t R = counts.sum().item<std::int64_t>();
};

TEST(Regroup, BringsRowsOfAnExpertTogetherInTheOrderOfRanks) {
  for (const DType dtype : activation_types) {
    for (int i = 0; i < 5; ++i) {
      const Groups g;
      const std::int64_t E = pick(1, 40);
      const at::Tensor rows = random({g.R, E}, dtype), grouped = garbage({g.R, E}, dtype);
      const at::Tensor back = garbage({g.R, E}, dtype);
      std::vector<at::Tensor> parts;
      const at::Tensor ends = g.counts.view(-1).cumsum(0);
      for (std::int64_t x = 0; x < g.X; ++x) {
        for (std::int64_t rank = 0; rank < g.ep; ++rank) {
          const auto n = g.counts[rank][x].item<std::int64_t>();
          const auto end = ends[rank * g.X + x].item<std::int64_t>();
          parts.push_back(rows.narrow(0, end - n, n));
        }
      }
      const std::vector<Extent> extents = {g.R, E, g.ep, g.X};
      run({Kernel::regroup, dtype, extents, {rows, g.counts}, {grouped}});
      run({Kernel::ungroup, dtype, extents, {grouped, g.counts}, {back}});
      EXPECT_TRUE(grouped.equal(at::cat(parts)));
      EXPECT_TRUE(back.equal(rows));
    }
  }
}

at::Tensor reference(const Groups& g, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) {
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < g.X; ++expert) {
    const auto n = g.counts.select(1, expert).sum().item<std::int64_t>();
    parts.push_back(x.narrow(0, first, n).mm(weight[expert].t()) + bias[expert]);
    first += n;
  }
  return at::cat(parts);
}

enum class Layout : bool { plain, transposed_with_bias };

void check(const Groups& g, DType dtype, Layout layout = Layout::plain) {
  const bool is_plain = layout == Layout::plain;
  const std::int64_t n = pick(1, 50), k = pick(1, 50);
  const at::Tensor x = random({g.R, k}, dtype);
  const at::Tensor weight =
      random(is_plain ? at::IntArrayRef{g.X, n, k} : at::IntArrayRef{g.X, k, n}, dtype);
  const at::Tensor bias =
      is_plain ? at::zeros({g.X, n}, scalar_type(dtype)) : random({g.X, n}, dtype);
  const at::Tensor dy = random({g.R, n}, dtype), y = garbage({g.R, n}, dtype);
  const at::Tensor dx = garbage({g.R, k}, dtype), dweight = at::full_like(weight, std::nan(""));
  const at::Tensor x_leaf = leaf(x), weight_leaf = leaf(weight), bias_leaf = leaf(bias);
  const at::Tensor want =
      reference(g, x_leaf, is_plain ? weight_leaf : weight_leaf.transpose(1, 2), bias_leaf);
  differentiate(want, dy);
  const std::vector<Extent> extents = {Extent::of(SymbolId(0)), n, k, g.X, is_plain ? 0 : 1};
  const Bindings bindings = {g.R};
  std::vector<at::Tensor> inputs = {x, weight, g.counts};
  if (!is_plain) inputs.push_back(bias);
  run({Kernel::grouped_matmul, dtype, extents, inputs, {y}, {}, {}, bindings});
  run({Kernel::grouped_matmul_input_backward,
       dtype,
       extents,
       {dy, weight, g.counts},
       {dx},
       {},
       {},
       bindings});
  run({Kernel::grouped_matmul_weight_backward,
       dtype,
       extents,
       {dy, x, g.counts},
       {dweight},
       {},
       {},
       bindings});
  expect_close(y, want, dtype);
  expect_close(dx, x_leaf.grad(), dtype);
  expect_close(dweight, weight_leaf.grad(), dtype);
  const at::Tensor dbias = garbage({g.X, n}, dtype);
  run({Kernel::sum_expert_rows, dtype, {g.R, n, g.X}, {dy, g.counts}, {dbias}});
  expect_close(dbias, bias_leaf.grad(), dtype);
}

TEST(GroupedMatmul, AgreesWithAutogradWithEmptyExperts) {
  for (const DType dtype : activation_types)
    for (int i = 0; i < 6; ++i) check(Groups(), dtype);
}

TEST(GroupedMatmul, AgreesWithAutogradWhereWeightsAreTransposedAndHaveBiases) {
  for (const DType dtype : activation_types)
    for (int i = 0; i < 6; ++i) check(Groups(), dtype, Layout::transposed_with_bias);
}

TEST(GroupedMatmul, LeavesZeroGradientsWhereNoRowCame) {
  Groups none;
  none.counts = at::zeros({none.ep, none.X}, at::kLong);
  none.R = 0;
  for (const DType dtype : activation_types)
    for (const Layout layout : {Layout::plain, Layout::transposed_with_bias})
      check(none, dtype, layout);
}

}  // namespace
}  // namespace xt
