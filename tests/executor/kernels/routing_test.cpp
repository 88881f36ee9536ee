#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

struct Routing {
  std::int64_t T = pick(1, 60), X = pick(1, 24), k = pick(1, std::min<std::int64_t>(X, 8)),
               E = pick(1, 150);
};

struct Sorted {
  at::Tensor indices, order, counts;
};

Sorted sorted_rows(const Routing& r) {
  const at::Tensor weights = garbage({r.T, r.k});
  Sorted s{at::empty({r.T, r.k}, at::kLong), at::empty({r.T * r.k}, at::kLong),
           at::empty({1, r.X}, at::kLong)};
  run({Kernel::softmax_top_k,
       DType::fp32,
       {r.T, r.X, r.k},
       {random({r.T, r.X})},
       {weights, s.indices}});
  run({Kernel::sort_rows, DType::fp32, {r.T, r.X, r.k}, {s.indices}, {s.order, s.counts}});
  return s;
}

void check_router(DType dtype, bool is_renormalised) {
  const Routing r;
  ModelConstants constants;
  constants.norm_topk_prob = is_renormalised;
  const at::Tensor logits = random({r.T, r.X}, dtype) * 3, dweights = random({r.T, r.k});
  const at::Tensor weights = garbage({r.T, r.k}), dlogits = garbage({r.T, r.X}, dtype);
  const at::Tensor indices = at::empty({r.T, r.k}, at::kLong);
  run({Kernel::softmax_top_k, dtype, {r.T, r.X, r.k}, {logits}, {weights, indices}, constants});
  run({Kernel::softmax_top_k_backward,
       dtype,
       {r.T, r.X, r.k},
       {dweights, logits, indices},
       {dlogits},
       constants});
  const at::Tensor logits_leaf = leaf(logits);
  const at::Tensor p = logits_leaf.softmax(-1);
  const at::Tensor largest = std::get<0>(p.topk(r.k));
  at::Tensor want = p.gather(1, indices);
  EXPECT_TRUE(want.equal(largest));
  if (is_renormalised) want = want / want.sum(-1, true);
  differentiate(want, dweights);
  expect_close(weights, want, DType::fp32);
  // A softmax over one expert is one; its gradient is nothing but rounding.
  if (r.X > 1 && (r.k > 1 || !is_renormalised)) expect_close(dlogits, logits_leaf.grad(), dtype);
}

TEST(Router, AgreesWithAutogradWithAndWithoutRenormalisation) {
  for (const DType dtype : activation_types)
    for (const bool is_renormalised : {true, false})
      for (int i = 0; i < 6; ++i) check_router(dtype, is_renormalised);
}

TEST(Router, PrefersTheFirstOfEqualExperts) {
  const at::Tensor logits = at::zeros({1, 6}), weights = garbage({1, 3});
  const at::Tensor indices = at::empty({1, 3}, at::kLong);
  run({Kernel::softmax_top_k, DType::fp32, {1, 6, 3}, {logits}, {weights, indices}});
  EXPECT_TRUE(indices.equal(at::tensor({0, 1, 2}, at::kLong).view({1, 3})));
}

// Of two layers of a pack, each of which adds its part; of padding behind its samples nothing is
// learnt.
TEST(BalanceLoss, AgreesWithAutogradOfItsFormula) {
  constexpr std::int64_t padding = 3;
  for (const DType dtype : activation_types) {
    const Routing r;
    const std::int64_t slots = r.T + padding;
    const at::Tensor load = at::zeros({r.X}), loss = at::zeros({1});
    std::vector<at::Tensor> logits, leaves, indices;
    at::Tensor mean = at::zeros({r.X}, at::kDouble);
    for (int layer = 0; layer < 2; ++layer) {
      logits.push_back(random({slots, r.X}, dtype) * 3);
      leaves.push_back(leaf(logits.back().narrow(0, 0, r.T)));
      const at::Tensor p = leaves.back().softmax(-1);
      mean = mean + p.sum(0) / (2 * r.T);
      load.add_(at::bincount(std::get<1>(p.topk(r.k)).view(-1), {}, r.X));
    }
    StepConstants step;
    step.balance_loss = 0.3;
    const at::Tensor rows = load.to(at::kDouble) / (2 * r.T);
    const at::Tensor want = 0.3 * static_cast<double>(r.X) * (rows * mean).sum();
    want.backward();
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const at::Tensor before = random({slots, r.X}, dtype) * 1e-3, got = before.clone();
      const at::Tensor sum = at::zeros({1});
      run({Kernel::balance_backward,
           dtype,
           {slots, r.X, r.k, 2, r.T},
           {logits[layer], load},
           {got, sum},
           {},
           step});
      loss.add_(sum);
      const at::Tensor wanted = before.to(at::kDouble);
      wanted.narrow(0, 0, r.T).add_(leaves[layer].grad());
      expect_close(got, wanted, dtype);
    }
    expect_close(loss, want.detach().view({1}), DType::fp32);
  }
}

TEST(SortRows, IsStableAndCountsEveryExpert) {
  for (int i = 0; i < 6; ++i) {
    const Routing r;
    const Sorted s = sorted_rows(r);
    const at::Tensor flat = s.indices.view(-1);
    EXPECT_TRUE(s.order.equal(flat.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false)));
    EXPECT_TRUE(s.counts.view(-1).equal(at::bincount(flat, {}, r.X)));
  }
}

void check_rows(DType dtype) {
  const Routing r;
  const Sorted s = sorted_rows(r);
  const std::int64_t R = r.T * r.k;
  const std::vector<Extent> extents = {r.T, r.E, r.k};
  const at::Tensor x = random({r.T, r.E}, dtype), weights = random({r.T, r.k});
  const at::Tensor rows = garbage({R, r.E}, dtype), y = garbage({r.T, r.E}, dtype);
  const at::Tensor dy = random({r.T, r.E}, dtype), drows = garbage({R, r.E}, dtype);
  const at::Tensor dweights = garbage({r.T, r.k}), dx = random({r.T, r.E}, dtype);
  run({Kernel::permute, dtype, extents, {x, s.order}, {rows}});
  const at::Tensor token = s.order.floor_divide(r.k);
  EXPECT_TRUE(rows.equal(x.index_select(0, token)));

  const at::Tensor rows_leaf = leaf(rows), weights_leaf = leaf(weights);
  const at::Tensor of_row = weights_leaf.view(-1).index_select(0, s.order).unsqueeze(1);
  const at::Tensor want =
      at::zeros({r.T, r.E}, at::kDouble).index_add(0, token, rows_leaf * of_row);
  differentiate(want, dy);
  run({Kernel::unpermute, dtype, extents, {rows, s.order, weights}, {y}});
  run({Kernel::unpermute_backward,
       dtype,
       extents,
       {dy, rows, s.order, weights},
       {drows, dweights}});
  expect_close(y, want, dtype);
  expect_close(drows, rows_leaf.grad(), dtype);
  expect_close(dweights, weights_leaf.grad(), dtype);

  const at::Tensor want_dx = dx.to(at::kDouble).index_add(0, token, drows.to(at::kDouble));
  run({Kernel::permute_backward_add, dtype, extents, {drows, s.order}, {dx}});
  expect_close(dx, want_dx, dtype);
}

TEST(Rows, AgreeWithAutogradToExpertOrderAndBack) {
  for (const DType dtype : activation_types)
    for (int i = 0; i < 6; ++i) check_rows(dtype);
}

}  // namespace
}  // namespace xt
