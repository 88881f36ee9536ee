// Momentum of Muon, matrices made orthogonal, and the update by them.
//
// Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; XTuner V1
// (InternLM/xtuner, b934f4620), optim/muon.py: the scale that makes an update's root mean square
// that of AdamW

#include <algorithm>
#include <cmath>
#include <cstring>

#include "executor/kernels/gemm.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

bool is_update(const at::Tensor& square_sum) {
  return std::isfinite(*elements<float>(square_sum, 1));
}

XT_PER_INSTRUCTION_SET void take_in(float* gradient, float* momentum, float decay,
                                    std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    momentum[i] = decay * momentum[i] + gradient[i];
    gradient[i] += decay * momentum[i];
  }
}

// The gradient becomes what momentum would be after one more such step.
void muon_momentum(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  if (!is_update(call.inputs[0])) return;
  auto* momentum = writable<float>(call.outputs[0], n);
  auto* gradient = writable<float>(call.outputs[1], n);
  const auto decay = static_cast<float>(call.step.momentum);
  for_rows(n, 2, [&](std::int64_t begin, std::int64_t end) {
    take_in(gradient, momentum, decay, begin, end);
  });
}

XT_PER_INSTRUCTION_SET void combine(float a, const float* x, float b, float* y, std::int64_t begin,
                                    std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = a * x[i] + b * y[i];
}

// y = a·x + b·y
void combine(float a, const float* x, float b, float* y, std::int64_t n) {
  for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) { combine(a, x, b, y, begin, end); });
}

/// What an iteration needs beside the matrix, of shorter side s and longer side l.
struct Scratch {
  Scratch(std::int64_t s, std::int64_t l)
      : x(scratch(s, l)), gram(scratch(s, s)), squared(scratch(s, s)), change(scratch(s, l)) {}

  at::Tensor x, gram, squared, change;
};

void copy(const float* from, std::int64_t rows, std::int64_t columns, bool transposes, float scale,
          float* to) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      to[transposes ? j * rows + i : i * columns + j] = scale * from[i * columns + j];
}

// X = a·X + (b·A + c·A·A)·X with A = X·Xᵀ, five times, from X over its norm.
void make_orthogonal(float* matrix, std::int64_t m, std::int64_t n) {
  constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  constexpr double eps = 1e-7, scale_of_rms = 0.2;
  const std::int64_t s = std::min(m, n), l = std::max(m, n);
  const bool is_tall = m > n;
  const Scratch of(s, l);
  auto *x = of.x.mutable_data_ptr<float>(), *gram = of.gram.mutable_data_ptr<float>(),
       *squared = of.squared.mutable_data_ptr<float>(),
       *change = of.change.mutable_data_ptr<float>();
  double squares = 0;
  for (std::int64_t i = 0; i < m * n; ++i)
    squares += static_cast<double>(matrix[i]) * static_cast<double>(matrix[i]);
  copy(matrix, m, n, is_tall, static_cast<float>(1 / (std::sqrt(squares) + eps)), x);
  for (int iteration = 0; iteration < 5; ++iteration) {
    gemm(s, s, l, {x, l}, {x, l, true}, {gram, s});
    gemm(s, s, s, {gram, s}, {gram, s}, {squared, s});
    combine(b, gram, c, squared, s * s);
    gemm(s, l, s, {squared, s}, {x, l}, {change, l});
    combine(1, change, a, x, s * l);
  }
  const double scale = scale_of_rms * std::sqrt(static_cast<double>(l));
  copy(x, s, l, is_tall, static_cast<float>(scale), matrix);
}

// Of the group's ranks, each has one of the matrices to work on.
void orthogonalise(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    auto* matrix = writable<float>(call.outputs[i], m * n);
    if (static_cast<std::int32_t>(i) == call.place) {
      make_orthogonal(matrix, m, n);
    } else {
      std::memset(matrix, 0, static_cast<std::size_t>(m * n) * sizeof(float));
    }
  }
}

// Decoupled decay as in AdamW.
void muon_update(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  if (!is_update(call.inputs[1])) return;
  const auto* update = elements<float>(call.inputs[0], n);
  auto* parameter = writable<float>(call.outputs[0], n);
  const StepConstants& s = call.step;
  combine(static_cast<float>(-s.learning_rate), update,
          static_cast<float>(1 - s.learning_rate * s.weight_decay), parameter, n);
}

}  // namespace

void enter_muon(KernelTable& table) {
  entry(table, Kernel::muon_momentum) = muon_momentum;
  entry(table, Kernel::orthogonalise) = orthogonalise;
  entry(table, Kernel::muon_update) = muon_update;
}

}  // namespace xt
