// Norm of gradients, clipping by it, and AdamW.

#include <cmath>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

template <typename T>
XT_PER_INSTRUCTION_SET float sum_of_squares(const T* x, std::int64_t n) {
  return dot(x, x, n);
}

// Sums of a few thousand squares in fp32, sums of those in fp64: many gradients are too many for
// fp32 alone.
void square_sum(const KernelCall& call) {
  constexpr std::int64_t run = 4096;
  const std::int64_t n = call.extent(0), runs = (n + run - 1) / run;
  auto* sum = writable<float>(call.outputs[0], 1);
  with_element_of(call.inputs[0], [&](auto element) {
    const auto* x = elements<decltype(element)>(call.inputs[0], n);
    const auto sum_runs = [&](std::int64_t begin, std::int64_t end, double partial) {
      for (std::int64_t i = begin; i < end; ++i)
        partial += static_cast<double>(sum_of_squares(x + i * run, std::min(run, n - i * run)));
      return partial;
    };
    *sum += static_cast<float>(
        at::parallel_reduce(0, runs, 16, 0.0, sum_runs, [](double a, double b) { return a + b; }));
  });
}

template <typename T>
XT_PER_INSTRUCTION_SET void scale(T* x, std::int64_t begin, std::int64_t end, float factor) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) put(x[i], wide(x[i]) * factor);
}

// Source: PyTorch, torch.nn.utils.clip_grad_norm_
void clip(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  const double norm = std::sqrt(static_cast<double>(*elements<float>(call.inputs[0], 1)));
  const double factor = call.step.max_grad_norm / (norm + 1e-6);
  if (factor >= 1 || !std::isfinite(norm)) return;
  with_element_of(call.outputs[0], [&](auto element) {
    auto* x = writable<decltype(element)>(call.outputs[0], n);
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
      scale(x, begin, end, static_cast<float>(factor));
    });
  });
}

struct Adam {
  const float* gradient;
  float* parameter;
  float* exp_avg;
  float* exp_avg_sq;
  float decay, step_size, one_minus_beta1, beta2, one_minus_beta2, correction2, eps;
};

XT_PER_INSTRUCTION_SET void update(const Adam& of, std::int64_t begin, std::int64_t end) {
  const Adam a = of;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = a.gradient[i];
    const float m = a.exp_avg[i] + (g - a.exp_avg[i]) * a.one_minus_beta1;
    const float v = a.exp_avg_sq[i] * a.beta2 + a.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v) / a.correction2 + a.eps;
    a.exp_avg[i] = m;
    a.exp_avg_sq[i] = v;
    a.parameter[i] = a.parameter[i] * a.decay - a.step_size * (m / denominator);
  }
}

// Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2, with
// the decay times the learning rate as in torch.optim.AdamW. Gradients whose sum of squares is no
// number change nothing, as in XTuner V1 (InternLM/xtuner, b934f4620), engine/train_engine.py.
void adamw(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  const StepConstants& s = call.step;
  if (!std::isfinite(*elements<float>(call.inputs[1], 1))) return;
  const auto step = static_cast<double>(s.update);
  const double correction1 = 1 - std::pow(s.beta1, step), correction2 = 1 - std::pow(s.beta2, step);
  const Adam adam{elements<float>(call.inputs[0], n),
                  writable<float>(call.outputs[0], n),
                  writable<float>(call.outputs[1], n),
                  writable<float>(call.outputs[2], n),
                  static_cast<float>(1 - s.learning_rate * s.weight_decay),
                  static_cast<float>(s.learning_rate / correction1),
                  static_cast<float>(1 - s.beta1),
                  static_cast<float>(s.beta2),
                  static_cast<float>(1 - s.beta2),
                  static_cast<float>(std::sqrt(correction2)),
                  static_cast<float>(s.eps)};
  for_rows(n, 4, [&](std::int64_t begin, std::int64_t end) { update(adam, begin, end); });
}

}  // namespace

void enter_optimizer(KernelTable& table) {
  entry(table, Kernel::square_sum) = square_sum;
  entry(table, Kernel::clip) = clip;
  entry(table, Kernel::adamw) = adamw;
}

}  // namespace xt
