// The rows of tokens that a router sends to experts. A slot is token·k + j; rows are sorted by
// expert and, within one, by slot. order[i] is the slot of row i.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/operands.h"

namespace xt {
namespace {

void sort_rows(const KernelCall& call) {
  const std::int64_t X = call.extent(1), slots = call.extent(0) * call.extent(2);
  const auto [experts, order] =
      at::sort(in(call, 0, {slots}), /*stable=*/true, 0, /*descending=*/false);
  out(call, 0, {slots}).copy_(order);
  const at::Tensor ends =
      at::searchsorted(experts, at::arange(X, beside(experts, at::kLong)), false, /*right=*/true);
  const at::Tensor counts = out(call, 1, {X});
  counts.copy_(ends);
  counts.narrow(0, 1, X - 1).sub_(ends.narrow(0, 0, X - 1));
}

at::Tensor token_of_row(const at::Tensor& order, std::int64_t k) { return order.floor_divide(k); }

void permute(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), k = call.extent(2);
  at::Tensor rows = out(call, 0, {T * k, E});
  at::index_select_out(rows, in(call, 0, {T, E}), 0, token_of_row(in(call, 1, {T * k}), k));
}

// The row of each slot, [T,k].
at::Tensor rows_of_slots(const KernelCall& call) {
  const std::int64_t T = call.extent(0), k = call.extent(2);
  const at::Tensor order = in(call, 1, {T * k}), rows = at::empty_like(order);
  rows.scatter_(0, order, at::arange(T * k, beside(order, at::kLong)));
  return rows.view({T, k});
}

// A token's rows are added one after the other, in fp32.
void permute_backward_add(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), k = call.extent(2);
  const at::Tensor rows = in(call, 0, {T * k, E}), row_of_slot = rows_of_slots(call);
  const at::Tensor dx = out(call, 0, {T, E});
  const at::Tensor sum = wide(dx);
  for (std::int64_t j = 0; j < k; ++j) sum.add_(rows.index_select(0, row_of_slot.select(1, j)));
  if (!sum.is_same(dx)) dx.copy_(sum);
}

void unpermute(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), k = call.extent(2);
  const at::Tensor rows = in(call, 0, {T * k, E}), row_of_slot = rows_of_slots(call);
  const at::Tensor weights = in(call, 2, {T, k}), y = out(call, 0, {T, E});
  const at::Tensor sum = at::zeros({T, E}, beside(y));
  for (std::int64_t j = 0; j < k; ++j)
    sum.addcmul_(wide(rows.index_select(0, row_of_slot.select(1, j))), weights.narrow(1, j, 1));
  y.copy_(sum);
}

void unpermute_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), E = call.extent(1), k = call.extent(2);
  const at::Tensor order = in(call, 2, {T * k}), weights = in(call, 3, {T * k});
  const at::Tensor dy = wide(in(call, 0, {T, E}).index_select(0, token_of_row(order, k)));
  out(call, 1, {T * k}).scatter_(0, order, (dy * in(call, 1, {T * k, E})).sum(1));
  out(call, 0, {T * k, E}).copy_(dy * weights.index_select(0, order).unsqueeze(1));
}

}  // namespace

void enter_aten_rows(KernelTable& table) {
  entry(table, Kernel::sort_rows) = sort_rows;
  entry(table, Kernel::permute) = permute;
  entry(table, Kernel::permute_backward_add) = permute_backward_add;
  entry(table, Kernel::unpermute) = unpermute;
  entry(table, Kernel::unpermute_backward) = unpermute_backward;
}

}  // namespace xt
