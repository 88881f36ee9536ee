// Embedding, residual, zeroing, conversion, and columns of rows that go to columns of other rows.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

void embedding(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), V = call.extent(2);
  at::Tensor y = out(call, 0, {T, E});
  at::index_select_out(y, in(call, 1, {V, E}), 0, in(call, 0, {T}));
}

// Rows of one token are added in one order: index_put_ sorts where it runs in parallel.
void embedding_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), V = call.extent(2);
  at::Tensor dweight = out(call, 0, {V, E});
  const c10::List<std::optional<at::Tensor>> rows({in(call, 1, {T})});
  dweight.index_put_(rows, in(call, 0, {T, E}).to(dweight.scalar_type()), /*accumulate=*/true);
}

void add(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  out(call, 0, {n}).add_(in(call, 0, {n}));
}

void sum(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  at::Tensor z = out(call, 0, {n});
  at::add_out(z, in(call, 0, {n}), in(call, 1, {n}));
}

void fill_zero(const KernelCall& call) { out(call, 0, {call.extent(0)}).zero_(); }

void cast(const KernelCall& call) {
  const std::int64_t n = call.extent(0);
  out(call, 0, {n}).copy_(in(call, 0, {n}));
}

// R W from Q U to n, of ir/kernel.h: the columns of x that go to each row of y, in fp32.
at::Tensor moved_columns(const KernelCall& call) {
  const std::int64_t R = call.extent(0), W = call.extent(1), from = call.extent(2),
                     Q = call.extent(3), n = call.extent(6);
  XT_CHECK(R % Q == 0 || Q % R == 0, R, Q);
  const at::Tensor x = in(call, 0, {R, W}).narrow(1, from, n);
  if (R > Q) return wide(in(call, 0, {Q, R / Q, W}).narrow(2, from, n)).sum(1);
  return wide(x).unsqueeze(1).expand({R, Q / R, n}).reshape({Q, n});
}

at::Tensor target_columns(const KernelCall& call) {
  return out(call, 0, {call.extent(3), call.extent(4)}).narrow(1, call.extent(5), call.extent(6));
}

void copy_columns(const KernelCall& call) {
  call.outputs[0].zero_();
  target_columns(call).copy_(moved_columns(call));
}

void add_columns(const KernelCall& call) { target_columns(call).add_(moved_columns(call)); }

}  // namespace

void enter_aten_elementwise(KernelTable& table) {
  entry(table, Kernel::embedding) = embedding;
  entry(table, Kernel::embedding_backward) = embedding_backward;
  entry(table, Kernel::add) = add;
  entry(table, Kernel::sum) = sum;
  entry(table, Kernel::fill_zero) = fill_zero;
  entry(table, Kernel::cast) = cast;
  entry(table, Kernel::copy_columns) = copy_columns;
  entry(table, Kernel::add_columns) = add_columns;
}

}  // namespace xt
