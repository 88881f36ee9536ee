// Activations of a ffn: gated ones over fused or separate halves, bounded ones, and GELU. The
// sources of the formulas are those of executor/kernels.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

struct Halves {
  at::Tensor gate, up;
};

// Of [T,2F]: F columns each.
Halves halves_of(const at::Tensor& gate_up) {
  const std::int64_t F = gate_up.size(1) / 2;
  return {gate_up.narrow(1, 0, F), gate_up.narrow(1, F, F)};
}

void gate(const Halves& of, const at::Tensor& act) {
  act.copy_(at::silu(wide(of.gate)).mul_(of.up));
}

void gate_backward(const at::Tensor& dact, const Halves& of, const Halves& gradient) {
  const at::Tensor d = wide(dact), g = wide(of.gate);
  gradient.gate.copy_(at::silu_backward(d * of.up, g));
  gradient.up.copy_(at::silu(g).mul_(d));
}

void swiglu(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  gate(halves_of(in(call, 0, {T, 2 * F})), out(call, 0, {T, F}));
}

void swiglu_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  gate_backward(in(call, 0, {T, F}), halves_of(in(call, 1, {T, 2 * F})),
                halves_of(out(call, 0, {T, 2 * F})));
}

void silu_multiply(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  gate({in(call, 0, {T, F}), in(call, 1, {T, F})}, out(call, 0, {T, F}));
}

void silu_multiply_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), F = call.extent(1);
  gate_backward(in(call, 0, {T, F}), {in(call, 1, {T, F}), in(call, 2, {T, F})},
                {out(call, 0, {T, F}), out(call, 1, {T, F})});
}

void silu(const KernelCall& call) {
  at::Tensor y = out(call, 0, {call.extent(0)});
  at::silu_out(y, in(call, 0, {call.extent(0)}));
}

void silu_backward(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  at::Tensor dx = out(call, 0, {n});
  at::silu_backward_out(dx, in(call, 0, {n}), in(call, 1, {n}));
}

void multiply(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  at::Tensor z = out(call, 0, {n});
  at::mul_out(z, in(call, 0, {n}), in(call, 1, {n}));
}

void gelu(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  out(call, 0, {n}).copy_(at::gelu(wide(in(call, 0, {n}))));
}

void gelu_backward(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  out(call, 0, {n}).copy_(at::gelu_backward(wide(in(call, 0, {n})), wide(in(call, 1, {n}))));
}

constexpr double alpha = 1.702;

// y = g · s(α·g) · (u + 1), s the sigmoid, g at most the limit and u within it.
void swiglu_clamped(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  const double limit = call.constants.swiglu_limit;
  const at::Tensor gate_up = wide(in(call, 0, {n, 2}));
  const at::Tensor g = gate_up.select(1, 0).clamp_max(limit);
  const at::Tensor u = gate_up.select(1, 1).clamp(-limit, limit);
  out(call, 0, {n}).copy_((g * alpha).sigmoid_().mul_(g).mul_(u + 1));
}

// dy/dg = (u + 1) · s · (1 + α·g·(1 − s)) and dy/du = g·s; nothing beyond the bounds.
void swiglu_clamped_backward(const KernelCall& call) {
  const std::int64_t n = call.extent(0) * call.extent(1);
  const double limit = call.constants.swiglu_limit;
  const at::Tensor dy = wide(in(call, 0, {n})), gate_up = wide(in(call, 1, {n, 2}));
  const at::Tensor gate = gate_up.select(1, 0), up = gate_up.select(1, 1);
  const at::Tensor g = gate.clamp_max(limit), u = up.clamp(-limit, limit);
  const at::Tensor s = (g * alpha).sigmoid_();
  const at::Tensor dg = dy * (u + 1) * (s * (1 + alpha * g * (1 - s)));
  const at::Tensor dgate_up = out(call, 0, {n, 2});
  dgate_up.select(1, 0).copy_(dg.masked_fill(gate > limit, 0));
  dgate_up.select(1, 1).copy_((dy * g * s).masked_fill((up < -limit).logical_or(up > limit), 0));
}

}  // namespace

void enter_aten_activations(KernelTable& table) {
  entry(table, Kernel::swiglu) = swiglu;
  entry(table, Kernel::swiglu_backward) = swiglu_backward;
  entry(table, Kernel::swiglu_clamped) = swiglu_clamped;
  entry(table, Kernel::swiglu_clamped_backward) = swiglu_clamped_backward;
  entry(table, Kernel::silu) = silu;
  entry(table, Kernel::silu_backward) = silu_backward;
  entry(table, Kernel::multiply) = multiply;
  entry(table, Kernel::silu_multiply) = silu_multiply;
  entry(table, Kernel::silu_multiply_backward) = silu_multiply_backward;
  entry(table, Kernel::gelu) = gelu;
  entry(table, Kernel::gelu_backward) = gelu_backward;
}

}  // namespace xt
