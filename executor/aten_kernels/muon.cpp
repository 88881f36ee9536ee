// Momentum of Muon, matrices made orthogonal, and the update by them; sources and constants are
// those of executor/kernels.

#include <algorithm>
#include <cmath>

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

// The gradient becomes what momentum would be after one more such step.
void muon_momentum(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  const double decay = call.step.momentum;
  const at::Tensor keeps = is_update(call.inputs[0]);
  const at::Tensor momentum = out(call, 0, {n}), gradient = out(call, 1, {n});
  const at::Tensor next = momentum * decay + gradient;
  momentum.copy_(at::where(keeps, next, momentum));
  gradient.copy_(at::where(keeps, gradient + next * decay, gradient));
}

// X = a·X + (b·A + c·A·A)·X with A = X·Xᵀ, five times, from X over its norm.
void make_orthogonal(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7, scale_of_rms = 0.2;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const at::Tensor lying = is_tall ? matrix.t() : matrix;
  const at::Tensor norm = at::linalg_vector_norm(matrix, 2, std::nullopt, false, at::kDouble);
  at::Tensor x = lying * wide(norm.add_(eps).reciprocal_());
  for (int iteration = 0; iteration < 5; ++iteration) {
    const at::Tensor gram = x.mm(x.t());
    const at::Tensor change = at::addmm(gram, gram, gram, b, c);
    x = at::addmm(x, change, x, a, 1);
  }
  lying.copy_(x.mul_(scale_of_rms * std::sqrt(static_cast<double>(x.size(1)))));
}

// Of the group's ranks, each has one of the matrices to work on.
void orthogonalise(const KernelCall& call) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const at::Tensor matrix = out(call, i, {call.extent(0), call.extent(1)});
    if (static_cast<std::int32_t>(i) == call.place)
      make_orthogonal(matrix);
    else
      matrix.zero_();
  }
}

// Decoupled decay as in AdamW.
void muon_update(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  const StepConstants& s = call.step;
  const at::Tensor parameter = out(call, 0, {n});
  const at::Tensor next =
      parameter * (1 - s.learning_rate * s.weight_decay) - in(call, 0, {n}) * s.learning_rate;
  parameter.copy_(at::where(is_update(call.inputs[1]), next, parameter));
}

}  // namespace

void enter_aten_muon(KernelTable& table) {
  entry(table, Kernel::muon_momentum) = muon_momentum;
  entry(table, Kernel::orthogonalise) = orthogonalise;
  entry(table, Kernel::muon_update) = muon_update;
}

}  // namespace xt
