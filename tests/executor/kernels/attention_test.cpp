#include <algorithm>
#include <cmath>

#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

struct Attention {
  std::int64_t T, H, K, D;
  std::vector<std::int64_t> starts;  // and T at the end
  DType dtype;
  std::int64_t window = 0;  // 0: none
  bool has_sinks = false;
  double scale = 1;

  std::int64_t longest() const {
    std::int64_t result = 0;
    for (std::size_t i = 1; i < starts.size(); ++i)
      result = std::max(result, starts[i] - starts[i - 1]);
    return result;
  }
};

Attention random_case(DType dtype, const std::vector<std::int64_t>& lengths) {
  Attention a{0, 0, pick(1, 3), 2 * pick(1, 16), {0}, dtype};
  a.H = a.K * pick(1, 3);
  for (const std::int64_t length : lengths) a.starts.push_back(a.T += length);
  return a;
}

at::Tensor boundaries(const Attention& a) {
  const at::Tensor result = at::full({a.T + 1}, a.T, at::kInt);
  for (std::size_t i = 0; i < a.starts.size(); ++i)
    result[static_cast<std::int64_t>(i)] = a.starts[i];
  return result;
}

// Scores as one T × T matrix, masked to earlier tokens of the same document.
std::array<at::Tensor, 2> reference(const Attention& a, const at::Tensor& q, const at::Tensor& k,
                                    const at::Tensor& v, const at::Tensor& sinks) {
  at::Tensor mask = at::full({a.T, a.T}, -INFINITY, at::kDouble);
  for (std::size_t i = 1; i < a.starts.size(); ++i) {
    const at::indexing::Slice of(a.starts[i - 1], a.starts[i]);
    const std::int64_t n = a.starts[i] - a.starts[i - 1];
    mask.index_put_({of, of}, at::full({n, n}, -INFINITY, at::kDouble).triu(1));
  }
  if (a.window > 0)
    mask = mask.masked_fill(at::ones({a.T, a.T}, at::kBool).tril(-a.window), -INFINITY);
  const std::int64_t repeats = a.H / a.K;
  const at::Tensor keys = k.repeat_interleave(repeats, 1).transpose(0, 1);
  const at::Tensor values = v.repeat_interleave(repeats, 1).transpose(0, 1);
  at::Tensor scores = a.scale * q.transpose(0, 1).matmul(keys.transpose(1, 2)) /
                          std::sqrt(static_cast<double>(a.D)) +
                      mask;
  if (a.has_sinks) scores = at::cat({scores, sinks.view({-1, 1, 1}).expand({-1, a.T, 1})}, -1);
  return {scores.softmax(-1).narrow(-1, 0, a.T).matmul(values).transpose(0, 1).contiguous(),
          scores.logsumexp(-1).transpose(0, 1).contiguous()};
}

void check(const Attention& a) {
  const std::int64_t T = a.T, H = a.H, K = a.K, D = a.D;
  const DType dtype = a.dtype;
  const at::Tensor q = random({T, H, D}, dtype), k = random({T, K, D}, dtype),
                   v = random({T, K, D}, dtype), d_o = random({T, H, D}, dtype);
  const at::Tensor o = garbage({T, H, D}, dtype), lse = garbage({T, H});
  const at::Tensor dq = garbage({T, H, D}, dtype), dk = garbage({T, K, D}, dtype),
                   dv = garbage({T, K, D}, dtype);
  const at::Tensor q_leaf = leaf(q), k_leaf = leaf(k), v_leaf = leaf(v);
  const at::Tensor sinks = random({H}, dtype), sinks_leaf = leaf(sinks);
  const auto [want_o, want_lse] = reference(a, q_leaf, k_leaf, v_leaf, sinks_leaf);
  differentiate(want_o, d_o);
  const Extent reach = a.window > 0 ? Extent(a.window) : Extent::of(SymbolId(0));
  const std::vector<Extent> extents = {T, H, K, D, 0, reach, T};
  const Bindings bindings = {a.longest()};
  const at::Tensor bounds = boundaries(a);
  ModelConstants constants;
  constants.attention_scale = a.scale;
  std::vector<at::Tensor> inputs = {q, k, v, bounds};
  if (a.has_sinks) inputs.push_back(sinks);
  const std::int64_t documents = std::ssize(a.starts) - 1;
  run({Kernel::attention, dtype, extents, inputs, {o, lse}, constants, {}, bindings, documents});
  run({Kernel::attention_backward,
       dtype,
       extents,
       {d_o, q, k, v, o, lse, bounds},
       {dq, dk, dv},
       constants,
       {},
       bindings,
       documents});
  expect_close(o, want_o, dtype);
  if (a.has_sinks) {
    const at::Tensor dsinks = garbage({H}, dtype);
    run({Kernel::sinks_backward, dtype, {T, H, D}, {d_o, o, lse, sinks}, {dsinks}});
    expect_close(dsinks, sinks_leaf.grad(), dtype);
  }
  expect_close(lse, want_lse, dtype);
  expect_close(dv, v_leaf.grad(), dtype);
  const double scale = dtype == DType::bf16 ? 2e-2 : 1e-5;
  // Documents of one token have gradients of nothing but rounding: held against dv.
  const double size = v_leaf.grad().norm().item<double>();
  for (const auto& [got, want] : {std::pair(dq, q_leaf.grad()), std::pair(dk, k_leaf.grad())})
    EXPECT_LE((got.to(at::kDouble) - want).norm().item<double>(),
              scale * std::max(want.norm().item<double>(), 0.1 * size));
}

TEST(Attention, AgreesWithAutogradOnDocumentsOfEveryLength) {
  for (const DType dtype : activation_types) {
    check(random_case(dtype, {1}));
    check(random_case(dtype, {1, 1, 1}));
    check(random_case(dtype, {64}));
    check(random_case(dtype, {65, 1, 63}));
    for (int i = 0; i < 4; ++i)
      check(random_case(dtype, {pick(1, 200), pick(1, 20), 1, pick(1, 100)}));
  }
}

TEST(Attention, AgreesWithAutogradWithinWindowsAndWithSinks) {
  for (const DType dtype : activation_types) {
    for (const std::int64_t window : {1, 7, 64, 100, 500}) {
      Attention a = random_case(dtype, {pick(1, 200), 1, pick(60, 140)});
      a.window = window;
      a.has_sinks = window % 2 == 0;
      a.scale = 1.3;
      check(a);
    }
  }
}

TEST(Attention, AgreesWithTheFusedKernelOfPyTorch) {
  const std::int64_t T = 150, H = 4, D = 32;
  const at::Tensor q = random({T, H, D}), k = random({T, 2, D}), v = random({T, 2, D});
  const at::Tensor o = garbage({T, H, D}), lse = garbage({T, H});
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const at::Tensor want = at::scaled_dot_product_attention(
      heads_first(q), heads_first(k), heads_first(v), {}, 0, true, std::nullopt, true);
  const Attention a{T, H, 2, D, {0, T}, DType::fp32};
  run({Kernel::attention, DType::fp32, {T, H, 2, D, 0, T, T}, {q, k, v, boundaries(a)}, {o, lse}});
  expect_close(o, want.squeeze(0).transpose(0, 1).contiguous().to(at::kDouble), DType::fp32);
}

TEST(Attention, SurvivesScoresThatWouldOverflow) {
  const at::Tensor q = random({70, 1, 8}) * 100, k = random({70, 1, 8}) * 100,
                   v = random({70, 1, 8});
  const at::Tensor o = garbage({70, 1, 8}), lse = garbage({70, 1});
  const Attention a{70, 1, 1, 8, {0, 70}, DType::fp32};
  run({Kernel::attention,
       DType::fp32,
       {70, 1, 1, 8, 0, 70, 70},
       {q, k, v, boundaries(a)},
       {o, lse}});
  EXPECT_TRUE(o.isfinite().all().item<bool>());
}

TEST(Attention, ThreadsChangeNothingButRounding) {
  const Attention a{130, 2, 1, 16, {0, 129, 130}, DType::fp32};
  at::set_num_threads(3);
  check(a);
  at::set_num_threads(1);
}

}  // namespace
}  // namespace xt
