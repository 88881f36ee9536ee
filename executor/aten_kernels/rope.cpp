// Rotary position embedding, in place, of some columns of each head; the layout of planes is that
// of executor/kernels.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"
#include "executor/kernels/rope_frequencies.h"

namespace xt {
namespace {

// Angles are fp32 products, as in the models' published code.
void rope_table(const KernelCall& call) {
  const std::int64_t T = call.extent(0), D = call.extent(1);
  const at::Tensor positions = in(call, 0, {T, 1}), table = out(call, 0, {T, D});
  const std::vector<float> frequencies = rope_frequencies(D, call.constants);
  const at::Tensor angles =
      wide(positions) *
      at::tensor(frequencies).to(positions.device(), at::kFloat, /*non_blocking=*/true);
  const double factor = call.constants.rope_scaling.attention_factor;
  table.narrow(1, 0, D / 2).copy_(angles.cos().mul_(factor));
  table.narrow(1, D / 2, D / 2).copy_(angles.sin().mul_(factor));
}

// A plane's two columns, each [T,H,D/2].
struct Plane {
  at::Tensor first, second;
};

Plane planes_of(const KernelCall& call) {
  const std::int64_t T = call.extent(0), H = call.extent(1), D = call.extent(2);
  const std::int64_t head = call.extent(3) > 0 ? call.extent(3) : D, first = call.extent(4);
  XT_CHECK(first + D <= head, first, D, head);
  const at::Tensor turned = out(call, 0, {T, H, head}).narrow(2, first, D);
  if (call.extent(5) > 0) {
    const at::Tensor pairs = turned.unflatten(2, {D / 2, 2});
    return {pairs.select(3, 0), pairs.select(3, 1)};
  }
  return {turned.narrow(2, 0, D / 2), turned.narrow(2, D / 2, D / 2)};
}

void rotate(const KernelCall& call, double direction) {
  const std::int64_t T = call.extent(0), D = call.extent(2);
  const at::Tensor table = in(call, 0, {T, 1, D});
  const at::Tensor cosine = table.narrow(2, 0, D / 2);
  const at::Tensor sine = table.narrow(2, D / 2, D / 2) * direction;
  const Plane of = planes_of(call);
  const at::Tensor a = of.first.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  const at::Tensor b = wide(of.second);
  of.first.copy_(a * cosine - b * sine);
  of.second.copy_(b * cosine + a * sine);
}

void rope(const KernelCall& call) { rotate(call, 1); }

void rope_backward(const KernelCall& call) { rotate(call, -1); }

}  // namespace

void enter_aten_rope(KernelTable& table) {
  entry(table, Kernel::rope_table) = rope_table;
  entry(table, Kernel::rope) = rope;
  entry(table, Kernel::rope_backward) = rope_backward;
}

}  // namespace xt
