#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

at::Tensor random_labels(std::int64_t C, std::int64_t V) {
  const at::Tensor labels = at::empty({C}, at::kLong);
  for (std::int64_t c = 0; c < C; ++c) labels[c] = pick(0, 3) == 0 ? -100 : pick(0, V - 1);
  labels[0] = pick(0, V - 1);
  return labels;
}

// Logits are mild: p − 1 of a label that is nearly certain has no digits left in fp32.
void check(std::int64_t C, std::int64_t V, DType dtype) {
  const at::Tensor labels = random_labels(C, V), logits = random({C, V}, dtype);
  const at::Tensor valid = at::tensor({37.f}), loss = at::tensor({0.5f});
  const at::Tensor logits_leaf = leaf(logits);
  const at::Tensor want = at::cross_entropy_loss(logits_leaf, labels, {}, at::Reduction::Sum) / 37;
  want.backward();
  run({Kernel::cross_entropy, dtype, {C, V}, {labels, valid}, {logits, loss}});
  expect_close(loss, (want + 0.5).view(1), DType::fp32);
  if (V > 1) expect_close(logits, logits_leaf.grad(), dtype);
}

TEST(CrossEntropy, AgreesWithAutogradAndSkipsIgnoredLabels) {
  for (const DType dtype : activation_types) {
    check(1, 1, dtype);
    check(1, 2, dtype);
    for (int i = 0; i < 5; ++i) check(pick(1, 30), pick(2, 2000), dtype);
  }
}

TEST(CrossEntropy, OfOnlyIgnoredLabelsIsNothing) {
  const at::Tensor labels = at::full({3}, -100, at::kLong), logits = random({3, 5});
  const at::Tensor valid = at::zeros({1}), loss = at::zeros({1});
  run({Kernel::cross_entropy, DType::fp32, {3, 5}, {labels, valid}, {logits, loss}});
  EXPECT_EQ(logits.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(loss.item<float>(), 0);
}

}  // namespace
}  // namespace xt
