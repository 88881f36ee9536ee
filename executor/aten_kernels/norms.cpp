// RMSNorm and LayerNorm without bias; the formulas are those of executor/kernels.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

void rms_norm(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1);
  const double eps = call.constants.rms_norm_eps;
  const at::Tensor x = in(call, 0, {T, E}), weight = in(call, 1, {E});
  const at::Tensor y = out(call, 0, {T, E}), rstd = out(call, 1, {T, 1});
  if (is_accelerated(x)) {
    const auto [normed, kept] = at::_fused_rms_norm(x, {E}, weight, eps);
    y.copy_(normed);
    rstd.copy_(kept.view({T, 1}));
    return;
  }
  const at::Tensor x_wide = wide(x);
  rstd.copy_(x_wide.square().mean(1, /*keepdim=*/true).add_(eps).rsqrt_());
  y.copy_((x_wide * rstd).mul_(weight));
}

// dx = rstd · (weight·dy − x · rstd² · mean(weight·dy·x))
void rms_norm_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1);
  const at::Tensor dy = in(call, 0, {T, E}), x = in(call, 1, {T, E}), weight = in(call, 2, {E}),
                   rstd = in(call, 3, {T, 1});
  const at::Tensor dx = out(call, 0, {T, E}), dweight = out(call, 1, {E});
  if (is_accelerated(x)) {
    const auto [of_x, of_weight] =
        at::_fused_rms_norm_backward(dy, x, {E}, rstd, weight, {true, true});
    dx.copy_(of_x);
    dweight.copy_(of_weight);
    return;
  }
  const at::Tensor g = wide(dy), z = wide(x) * rstd;
  dweight.copy_((g * z).sum(0));
  const at::Tensor weighted = g * weight;
  dx.copy_((weighted - z * (weighted * z).mean(1, true)).mul_(rstd));
}

void layer_norm(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1);
  const at::Tensor x = wide(in(call, 0, {T, E})), moments = out(call, 1, {T, 2});
  const at::Tensor mean = moments.narrow(1, 0, 1), rstd = moments.narrow(1, 1, 1);
  mean.copy_(x.mean(1, true));
  const at::Tensor centred = x - mean;
  rstd.copy_(centred.square().mean(1, true).add_(call.constants.rms_norm_eps).rsqrt_());
  out(call, 0, {T, E}).copy_((centred * rstd).mul_(in(call, 1, {E})));
}

// With g = weight·dy and z = (x − mean)·rstd:  dx = rstd · (g − mean(g) − z · mean(g·z))
void layer_norm_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1);
  const at::Tensor dy = wide(in(call, 0, {T, E})), moments = in(call, 3, {T, 2});
  const at::Tensor mean = moments.narrow(1, 0, 1), rstd = moments.narrow(1, 1, 1);
  const at::Tensor z = (wide(in(call, 1, {T, E})) - mean).mul_(rstd);
  out(call, 1, {E}).copy_((dy * z).sum(0));
  const at::Tensor g = dy * in(call, 2, {E});
  out(call, 0, {T, E}).copy_((g - g.mean(1, true)).sub_(z * (g * z).mean(1, true)).mul_(rstd));
}

}  // namespace

void enter_aten_norms(KernelTable& table) {
  entry(table, Kernel::rms_norm) = rms_norm;
  entry(table, Kernel::rms_norm_backward) = rms_norm_backward;
  entry(table, Kernel::layer_norm) = layer_norm;
  entry(table, Kernel::layer_norm_backward) = layer_norm_backward;
}

}  // namespace xt
