#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/products.h"

namespace xt {
namespace {

bool multiplies_as_it_is(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  const at::ScalarType type = a.scalar_type();
  return b.scalar_type() == type && to.scalar_type() == type &&
         (type == at::kFloat || is_accelerated(a));
}

// In fp32, of operands of one type or two.
at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) {
  if (is_accelerated(a) && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16)
    return at::mm(a, b, at::kFloat);
  return at::mm(wide(a), wide(b));
}

}  // namespace

void multiply_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, Adds adds) {
  at::Tensor y = to;
  if (multiplies_as_it_is(a, b, y)) {
    adds == Adds::yes ? y.addmm_(a, b) : at::mm_out(y, a, b);
  } else {
    const at::Tensor product = wide_product(a, b);
    adds == Adds::yes ? y.add_(product) : y.copy_(product);
  }
}

void multiply_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                   const at::Tensor& to) {
  at::Tensor y = to;
  if (multiplies_as_it_is(a, b, y) && bias.scalar_type() == y.scalar_type())
    at::addmm_out(y, bias, a, b);
  else
    y.copy_(wide_product(a, b).add_(bias));
}

namespace {

void matmul(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  const at::Tensor x = in(call, 0, {m, k}), weight = in(call, 1, {n, k}), y = out(call, 0, {m, n});
  if (call.inputs.size() > 2)
    multiply_into(x, weight.t(), in(call, 2, {n}), y);
  else
    multiply_into(x, weight.t(), y);
}

void sum_rows(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1);
  out(call, 0, {n}).copy_(in(call, 0, {R, n}).sum(0, /*keepdim=*/false, at::kFloat));
}

template <Adds adds>
void input_backward(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  multiply_into(in(call, 0, {m, n}), in(call, 1, {n, k}), out(call, 0, {m, k}), adds);
}

template <Adds adds>
void weight_backward(const KernelCall& call) {
  const std::int64_t m = call.extent(0), n = call.extent(1), k = call.extent(2);
  multiply_into(in(call, 0, {m, n}).t(), in(call, 1, {m, k}), out(call, 0, {n, k}), adds);
}

}  // namespace

void enter_aten_matmul(KernelTable& table) {
  entry(table, Kernel::matmul) = matmul;
  entry(table, Kernel::sum_rows) = sum_rows;
  entry(table, Kernel::matmul_input_backward) = input_backward<Adds::no>;
  entry(table, Kernel::matmul_input_backward_add) = input_backward<Adds::yes>;
  entry(table, Kernel::matmul_weight_backward) = weight_backward<Adds::no>;
  entry(table, Kernel::matmul_weight_backward_add) = weight_backward<Adds::yes>;
}

}  // namespace xt
