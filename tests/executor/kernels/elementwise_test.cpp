#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

at::Tensor random_tokens(std::int64_t T, std::int64_t V) {
  at::Tensor tokens = at::empty({T}, at::kLong);
  for (std::int64_t t = 0; t < T; ++t) tokens[t] = pick(0, V - 1);
  return tokens;
}

TEST(Embedding, AgreesWithAutogradAndAddsToTheGradientThatIsThere) {
  for (const DType dtype : activation_types) {
    for (int i = 0; i < 5; ++i) {
      const std::int64_t T = pick(1, 60), E = pick(1, 70), V = pick(1, 40);
      const at::Tensor tokens = random_tokens(T, V), weight = random({V, E}, dtype);
      const at::Tensor y = garbage({T, E}, dtype), dy = random({T, E}, dtype);
      const at::Tensor dweight = random({V, E}, dtype), before = dweight.clone();
      const at::Tensor weight_leaf = leaf(weight);
      const at::Tensor want = at::embedding(weight_leaf, tokens);
      differentiate(want, dy);
      run({Kernel::embedding, dtype, {T, E, V}, {tokens, weight}, {y}});
      run({Kernel::embedding_backward, dtype, {T, E, V}, {dy, tokens}, {dweight}});
      expect_close(y, want, dtype);
      expect_close(dweight, before.to(at::kDouble) + weight_leaf.grad(), dtype);
    }
  }
}

TEST(Add, TakesOperandsOfDifferentTypes) {
  for (const DType of_x : activation_types) {
    for (const DType of_y : activation_types) {
      const std::int64_t n = pick(1, 1000);
      const at::Tensor x = random({n}, of_x), y = random({n}, of_y);
      const at::Tensor want = x.to(at::kDouble) + y.to(at::kDouble);
      run({Kernel::add, of_x, {n}, {x}, {y}});
      expect_close(y, want, of_y);
    }
  }
}

TEST(Sum, LeavesItsOperandsAlone) {
  for (const DType dtype : activation_types) {
    const std::int64_t n = pick(1, 1000);
    const at::Tensor x = random({n}, dtype), y = random({n}, dtype), z = garbage({n}, dtype);
    run({Kernel::sum, dtype, {n}, {x, y}, {z}});
    expect_close(z, x.to(at::kDouble) + y.to(at::kDouble), dtype);
  }
}

TEST(Swiglu, AgreesWithAutograd) {
  for (const DType dtype : activation_types) {
    for (const std::int64_t F : {std::int64_t{1}, pick(2, 20), pick(20, 200)}) {
      const std::int64_t T = pick(1, 40);
      const at::Tensor gate_up = random({T, 2 * F}, dtype) * 4, act = garbage({T, F}, dtype);
      const at::Tensor dact = random({T, F}, dtype), dgate_up = garbage({T, 2 * F}, dtype);
      const at::Tensor gate_up_leaf = leaf(gate_up);
      const std::vector<at::Tensor> halves = gate_up_leaf.chunk(2, 1);
      const at::Tensor want = at::silu(halves[0]) * halves[1];
      differentiate(want, dact);
      run({Kernel::swiglu, dtype, {T, F}, {gate_up}, {act}});
      run({Kernel::swiglu_backward, dtype, {T, F}, {dact, gate_up}, {dgate_up}});
      expect_close(act, want, dtype);
      expect_close(dgate_up, gate_up_leaf.grad(), dtype);
    }
  }
}

TEST(SiluMultiply, AgreesWithAutogradInOneKernelAndInSeveral) {
  for (const DType dtype : activation_types) {
    const std::int64_t T = pick(1, 40), F = pick(2, 200), n = T * F;
    const at::Tensor gate = random({T, F}, dtype) * 4, up = random({T, F}, dtype);
    const at::Tensor dact = random({T, F}, dtype), act = garbage({T, F}, dtype);
    const at::Tensor dgate = garbage({T, F}, dtype), dup = garbage({T, F}, dtype);
    const at::Tensor gate_leaf = leaf(gate), up_leaf = leaf(up);
    const at::Tensor want = at::silu(gate_leaf) * up_leaf;
    differentiate(want, dact);
    run({Kernel::silu_multiply, dtype, {T, F}, {gate, up}, {act}});
    run({Kernel::silu_multiply_backward, dtype, {T, F}, {dact, gate, up}, {dgate, dup}});
    expect_close(act, want, dtype);
    expect_close(dgate, gate_leaf.grad(), dtype);
    expect_close(dup, up_leaf.grad(), dtype);
    const at::Tensor silu = garbage({T, F}, dtype), d_silu = garbage({T, F}, dtype);
    run({Kernel::silu, dtype, {n}, {gate}, {silu}});
    run({Kernel::multiply, dtype, {n}, {silu, up}, {act}});
    run({Kernel::multiply, dtype, {n}, {dact, up}, {d_silu}});
    run({Kernel::silu_backward, dtype, {n}, {d_silu, gate}, {dgate}});
    expect_close(silu, at::silu(gate_leaf), dtype);
    expect_close(act, want, dtype);
    expect_close(dgate, gate_leaf.grad(), dtype);
  }
}

TEST(Gelu, AgreesWithAutograd) {
  for (const DType dtype : activation_types) {
    for (const std::int64_t F : {std::int64_t{1}, pick(2, 20), pick(20, 200)}) {
      const std::int64_t T = pick(1, 40);
      const at::Tensor x = random({T, F}, dtype) * 4, act = garbage({T, F}, dtype);
      const at::Tensor dact = random({T, F}, dtype), dx = garbage({T, F}, dtype);
      const at::Tensor x_leaf = leaf(x), want = at::gelu(x_leaf);
      differentiate(want, dact);
      run({Kernel::gelu, dtype, {T, F}, {x}, {act}});
      run({Kernel::gelu_backward, dtype, {T, F}, {dact, x}, {dx}});
      expect_close(act, want, dtype);
      expect_close(dx, x_leaf.grad(), dtype);
    }
  }
}

TEST(Swiglu, SaturatesWithoutOverflow) {
  const at::Tensor gate_up = at::tensor({-1000.f, 1000.f, 2.f, 3.f}).view({1, 4});
  const at::Tensor act = garbage({1, 2});
  run({Kernel::swiglu, DType::fp32, {1, 2}, {gate_up}, {act}});
  EXPECT_NEAR(act[0][0].item<float>(), 0, 1e-30);
  EXPECT_EQ(act[0][1].item<float>(), 3000);
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions, double theta) {
  const std::int64_t D = x.size(2);
  const at::Tensor exponents = at::arange(0, D, 2, at::kFloat) / static_cast<double>(D);
  const at::Tensor frequencies = at::pow(theta, exponents).reciprocal();
  const at::Tensor angles = at::outer(positions.to(at::kFloat), frequencies).to(at::kDouble);
  const at::Tensor cosine = angles.cos().unsqueeze(1), sine = angles.sin().unsqueeze(1);
  const std::vector<at::Tensor> halves = x.chunk(2, 2);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, 2);
}

at::Tensor frequencies_of(const RopeScaling& scaling, std::int64_t D) {
  ModelConstants constants;
  constants.rope_theta = 10000;
  constants.rope_scaling = scaling;
  const at::Tensor positions = at::tensor({std::int64_t{1}}), table = garbage({1, D});
  run({Kernel::rope_table, DType::fp32, {1, D}, {positions}, {table}, constants});
  return at::atan2(table.narrow(1, D / 2, D / 2), table.narrow(1, 0, D / 2)).flatten();
}

// Against transformers' llama3 scaling of 8 planes, factor 8, low 1, high 4, 64 tokens before.
TEST(Rope, ScalesFrequenciesAsThePublishedModelsDo) {
  const at::Tensor plain = frequencies_of({}, 16);
  const at::Tensor linear = frequencies_of({RopeScalingKind::linear, 4}, 16);
  EXPECT_TRUE(at::allclose(linear * 4, plain, 1e-5));
  const at::Tensor llama3 = frequencies_of({RopeScalingKind::llama3, 8, 1, 4, 64}, 16);
  const at::Tensor waves = 2 * M_PI / plain;
  for (std::int64_t i = 0; i < 8; ++i) {
    const auto of = [&](const at::Tensor& all) { return all[i].item<double>(); };
    const double wave = of(waves), share = (64 / wave - 1) / 3;
    const double want = wave < 16   ? of(plain)
                        : wave > 64 ? of(plain) / 8
                                    : (1 - share) * of(plain) / 8 + share * of(plain);
    EXPECT_NEAR(of(llama3), want, 1e-5 * want) << i;
  }
}

TEST(Rope, AgreesWithAutograd) {
  for (const DType dtype : activation_types) {
    for (const std::int64_t D : {2, 16, 64}) {
      const std::int64_t T = pick(1, 50), H = pick(1, 5);
      const at::Tensor positions = random_tokens(T, 2000), table = garbage({T, D});
      const at::Tensor x = random({T, H, D}, dtype), dx = random({T, H, D}, dtype);
      const at::Tensor x_leaf = leaf(x);
      ModelConstants constants;
      constants.rope_theta = 10000;
      const at::Tensor want = rotated(x_leaf, positions, constants.rope_theta);
      differentiate(want, dx);
      run({Kernel::rope_table, dtype, {T, D}, {positions}, {table}, constants});
      run({Kernel::rope, dtype, {T, H, D}, {table}, {x}});
      run({Kernel::rope_backward, dtype, {T, H, D}, {table}, {dx}});
      // An angle near 2000 is known to one part in 2^24: 1e-4 of a turn's unit.
      EXPECT_LE((x.to(at::kDouble) - want).norm().item<double>(),
                (dtype == DType::bf16 ? 2e-2 : 1e-4) * want.norm().item<double>());
      EXPECT_LE((dx.to(at::kDouble) - x_leaf.grad()).norm().item<double>(),
                (dtype == DType::bf16 ? 2e-2 : 1e-4) * want.norm().item<double>());
    }
  }
}

TEST(Cast, RoundsToNearestAndBack) {
  const at::Tensor x = random({777}), narrow = garbage({777}, DType::bf16), back = garbage({777});
  run({Kernel::cast, DType::bf16, {777}, {x}, {narrow}});
  run({Kernel::cast, DType::bf16, {777}, {narrow}, {back}});
  EXPECT_TRUE(narrow.equal(x.to(at::kBFloat16)));
  EXPECT_TRUE(back.equal(narrow.to(at::kFloat)));
}

TEST(FillZero, LeavesNothing) {
  const at::Tensor x = garbage({129}, DType::bf16);
  run({Kernel::fill_zero, DType::bf16, {129}, {}, {x}});
  EXPECT_EQ(x.count_nonzero().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace xt
