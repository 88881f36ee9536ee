#include "executor/kernels/bf16_gemm.h"

#include <cmath>
#include <limits>

#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

using c10::BFloat16;

struct Case {
  std::int64_t m, n, k;
  bool transposes_a, transposes_b;
};

// Every layout, on both sides of tiles of 64 and depths of 512, with odd sizes among them.
std::vector<Case> cases() {
  std::vector<Case> list = {
      {1, 1, 1, true, true}, {64, 64, 512, false, true}, {3, 200, 17, true, false}};
  for (const bool transposes_a : {false, true})
    for (const bool transposes_b : {false, true}) {
      list.push_back({pick(65, 150), pick(65, 150), pick(513, 1100), transposes_a, transposes_b});
      list.push_back({pick(1, 63), pick(1, 63), pick(1, 40), transposes_a, transposes_b});
    }
  return list;
}

// Columns [3, 3 + columns) of a matrix whose other columns are NaN.
struct Within {
  at::Tensor whole;
  std::int64_t stride;

  Within(std::int64_t rows, std::int64_t columns)
      : whole(garbage({rows, columns + 8}, DType::bf16)), stride(columns + 8) {
    part().copy_(random({rows, columns}));
  }
  at::Tensor part() const { return whole.narrow(1, 3, stride - 8); }
  BFloat16* data() const { return whole.mutable_data_ptr<BFloat16>() + 3; }
};

at::Tensor wide_part(const Within& of, bool is_transposed) {
  const at::Tensor wide = of.part().to(at::kDouble);
  return is_transposed ? wide.t() : wide;
}

// Memory of exactly `n` elements that knows whether more was written.
struct Bounded {
  static constexpr std::int64_t margin = 64;
  at::Tensor whole;

  explicit Bounded(std::int64_t n) : whole(garbage({margin + n + margin})) {}
  float* data() const { return whole.mutable_data_ptr<float>() + margin; }
  bool is_kept() const {
    const at::Tensor ends =
        at::cat({whole.narrow(0, 0, margin), whole.narrow(0, whole.numel() - margin, margin)});
    return ends.isnan().all().item<bool>();
  }
};

// Each element is within half a unit of the last of eight places, but for what summing rounds in
// fp32.
void expect_rounded_once(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor excess = (got.to(at::kDouble) - want).abs() - want.abs() / 256;
  EXPECT_LE(excess.max().item<double>(), 1e-4);
}

class Bf16Gemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_bf16_instructions()) GTEST_SKIP() << "this CPU has no bf16 instructions";
  }
};

TEST_F(Bf16Gemm, MultipliesPartsOfMatricesInEveryLayoutWithinItsWorkspace) {
  for (const auto& [m, n, k, transposes_a, transposes_b] : cases()) {
    const Within a(transposes_a ? k : m, transposes_a ? m : k),
        b(transposes_b ? n : k, transposes_b ? k : n), c(m, n), bias(1, n);
    const at::Tensor product = wide_part(a, transposes_a).mm(wide_part(b, transposes_b));
    const Bounded left(m * k), right(k * n), sums(m * n);
    const auto multiply = [&](const NarrowProduct& to) {
      bf16_gemm(m, n, k, {a.data(), a.stride, transposes_a}, {b.data(), b.stride, transposes_b}, to,
                {left.data(), right.data(), sums.data()});
    };
    const at::Tensor before = wide_part(c, false);
    multiply({c.data(), c.stride, c.data(), c.stride});
    expect_rounded_once(c.part(), before + product);
    multiply({c.data(), c.stride, bias.data(), 0});
    expect_rounded_once(c.part(), product + wide_part(bias, false));
    multiply({c.data(), c.stride});
    expect_rounded_once(c.part(), product);
    EXPECT_EQ(c.whole.isnan().sum().item<std::int64_t>(), 8 * m);
    EXPECT_TRUE(left.is_kept() && right.is_kept() && sums.is_kept()) << m << ' ' << n << ' ' << k;
  }
}

// 256 + 1028 / 2 + 1 = 771, which lies between 768 and 772. The product alone, 770, would be
// rounded to 768, and 769 to 768 again.
TEST_F(Bf16Gemm, RoundsOnceAndToNearestEven) {
  constexpr std::int64_t k = 1029;
  const at::Tensor a = at::full({1, k}, 0.5, at::kBFloat16), b = at::ones({k, 1}, at::kBFloat16);
  a[0][0] = 256.0;
  const at::Tensor c = at::ones({1, 1}, at::kBFloat16), workspace = at::empty({3, k});
  auto* const to = c.mutable_data_ptr<BFloat16>();
  auto* const floats = workspace.mutable_data_ptr<float>();
  bf16_gemm(1, 1, k, {a.const_data_ptr<BFloat16>(), k}, {b.const_data_ptr<BFloat16>(), 1},
            {to, 1, to, 1}, {floats, floats + k, floats + 2 * k});
  EXPECT_EQ(c.item<float>(), 772.0f);
}

TEST_F(Bf16Gemm, GivesTheSameBitsWhateverTheNumberOfThreadsAndTheAddress) {
  constexpr std::int64_t m = 333, n = 300, k = 700;
  const Within a(m, k), b(n, k);
  const auto product = [&](int threads, std::int64_t offset) {
    const at::Tensor c = garbage({m * n + offset}, DType::bf16),
                     workspace = at::empty({m * k + n * k + m * n + offset});
    auto* const floats = workspace.mutable_data_ptr<float>() + offset;
    at::set_num_threads(threads);
    bf16_gemm(m, n, k, {a.data(), a.stride}, {b.data(), b.stride, true},
              {c.mutable_data_ptr<BFloat16>() + offset, n},
              {floats, floats + m * k, floats + m * k + n * k});
    at::set_num_threads(1);
    return c.narrow(0, offset, m * n);
  };
  const at::Tensor once = product(1, 0);
  EXPECT_TRUE(at::equal(once, product(3, 0)));
  EXPECT_TRUE(at::equal(once, product(1, 5)));
}

TEST_F(Bf16Gemm, KeepsWhatIsNoNumberWhereItIs) {
  constexpr std::int64_t m = 70, n = 70, k = 33;
  const at::Tensor a = random({m, k}, DType::bf16), b = random({n, k}, DType::bf16),
                   c = garbage({m, n}, DType::bf16);
  a[5][32] = std::nan("");
  b[66][0] = std::numeric_limits<double>::infinity();
  run({Kernel::matmul, DType::bf16, {m, n, k}, {a, b}, {c}});
  const at::Tensor is_no_number = c.isfinite().logical_not();
  EXPECT_EQ(is_no_number[5].sum().item<std::int64_t>(), n);
  EXPECT_EQ(is_no_number.select(1, 66).sum().item<std::int64_t>(), m);
  EXPECT_EQ(is_no_number.sum().item<std::int64_t>(), m + n - 1);
}

// Products of the two tables are other functions, and differ in the last bits of what they round.
TEST_F(Bf16Gemm, IsWhatTheTableOfThisCpuMultipliesWith) {
  const KernelTable here = cpu_kernels(), widened = cpu_kernels(Bf16Products::widened);
  for (const Kernel kernel :
       {Kernel::matmul, Kernel::matmul_weight_backward_add, Kernel::grouped_matmul})
    EXPECT_NE(here[static_cast<std::size_t>(kernel)], widened[static_cast<std::size_t>(kernel)]);
  EXPECT_EQ(bf16_products_of_cpu(), Bf16Products::as_they_are);
}

}  // namespace
}  // namespace xt
