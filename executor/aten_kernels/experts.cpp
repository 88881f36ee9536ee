// Rows of several experts: regrouped from the order they arrive in, and multiplied by the weight of
// their expert. counts[r][x] says how many rows of local expert x came from rank r.

#include "executor/aten_kernels/groups.h"
#include "executor/aten_kernels/products.h"

namespace xt {
namespace {

// Rows of each expert, from all ranks.
at::Tensor rows_of_experts(const at::Tensor& counts, std::int64_t X) {
  XT_CHECK(X > 0 && counts.numel() % X == 0, counts.numel(), X);
  return counts.view({-1, X}).sum(0);
}

// The group of each of R rows that lie group by group, so many of each.
at::Tensor group_of_row(const at::Tensor& counts, std::int64_t R) {
  return at::repeat_interleave(counts.view(-1), std::optional<std::int64_t>(R));
}

// Where each grouped row was received: rows of an expert stay in the order of ranks.
at::Tensor received_row(const KernelCall& call) {
  const std::int64_t R = call.extent(0), X = call.extent(3);
  const at::Tensor expert = group_of_row(call.inputs[1], R).remainder(X);
  return std::get<1>(at::sort(expert, /*stable=*/true, 0, /*descending=*/false));
}

void regroup(const KernelCall& call) {
  const std::int64_t R = call.extent(0), E = call.extent(1);
  at::Tensor grouped = out(call, 0, {R, E});
  at::index_select_out(grouped, in(call, 0, {R, E}), 0, received_row(call));
}

void ungroup(const KernelCall& call) {
  const std::int64_t R = call.extent(0), E = call.extent(1);
  out(call, 0, {R, E}).index_copy_(0, received_row(call), in(call, 0, {R, E}));
}

// Weights are [X,n,k], or [X,k,n] where they are transposed: as [X,n,k] either way.
at::Tensor weights_of(const KernelCall& call, const at::Tensor& operand) {
  const std::int64_t n = call.extent(1), k = call.extent(2), X = call.extent(3);
  if (call.extent(4) > 0) return operand.view({X, k, n}).transpose(1, 2);
  return operand.view({X, n, k});
}

// Whether one kernel multiplies all groups and nobody reads how many rows there are.
bool is_one_kernel(const KernelCall& call, const at::Tensor& rows) {
  constexpr std::int64_t elements_of_16_bytes = 8;
  return is_accelerated(rows) && rows.scalar_type() == at::kBFloat16 && call.extent(0) > 0 &&
         call.extent(1) % elements_of_16_bytes == 0 && call.extent(2) % elements_of_16_bytes == 0;
}

// Where the rows of each expert end.
at::Tensor ends_of_experts(const at::Tensor& counts, std::int64_t X) {
  return rows_of_experts(counts, X).cumsum(0).to(at::kInt);
}

// Calls `function(expert, first row, rows)` for each of X experts.
template <typename Function>
void for_experts(const KernelCall& call, const Function& function) {
  const std::int64_t X = call.extent(3);
  const at::Tensor rows = rows_of_experts(call.inputs[2], X).cpu();
  std::int64_t first = 0;
  for (std::int64_t x = 0; x < X; ++x) {
    const std::int64_t n = rows.const_data_ptr<std::int64_t>()[x];
    function(x, first, n);
    first += n;
  }
  XT_CHECK(first == call.extent(0), first, call.extent(0));
}

void grouped_matmul(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1), k = call.extent(2), X = call.extent(3);
  const at::Tensor x = in(call, 0, {R, k}), y = out(call, 0, {R, n});
  const at::Tensor weights = weights_of(call, call.inputs[1]).transpose(1, 2);
  const bool has_bias = call.inputs.size() > 3;
  if (is_one_kernel(call, x)) {
    y.copy_(at::_grouped_mm(x, weights, ends_of_experts(call.inputs[2], X)));
    if (has_bias) {
      const at::Tensor expert = group_of_row(rows_of_experts(call.inputs[2], X), R);
      y.add_(in(call, 3, {X, n}).index_select(0, expert));
    }
    return;
  }
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    const at::Tensor from = x.narrow(0, first, rows), to = y.narrow(0, first, rows);
    if (has_bias)
      multiply_into(from, weights[expert], in(call, 3, {X, n})[expert], to);
    else
      multiply_into(from, weights[expert], to);
  });
}

void grouped_matmul_input_backward(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1), k = call.extent(2), X = call.extent(3);
  const at::Tensor dy = in(call, 0, {R, n}), dx = out(call, 0, {R, k});
  const at::Tensor weights = weights_of(call, call.inputs[1]);
  if (is_one_kernel(call, dy)) {
    dx.copy_(at::_grouped_mm(dy, weights, ends_of_experts(call.inputs[2], X)));
    return;
  }
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    multiply_into(dy.narrow(0, first, rows), weights[expert], dx.narrow(0, first, rows));
  });
}

// Experts without rows have a gradient of zero.
void grouped_matmul_weight_backward(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1), k = call.extent(2), X = call.extent(3);
  const at::Tensor dy = in(call, 0, {R, n}), x = in(call, 1, {R, k});
  const at::Tensor dweights = weights_of(call, call.outputs[0]);
  if (is_one_kernel(call, x) && dweights.scalar_type() == x.scalar_type()) {
    const at::Tensor product = at::_grouped_mm(dy.t(), x, ends_of_experts(call.inputs[2], X));
    const at::Tensor has_none = rows_of_experts(call.inputs[2], X).eq(0).view({X, 1, 1});
    dweights.copy_(product.masked_fill(has_none, 0));
    return;
  }
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    multiply_into(dy.narrow(0, first, rows).t(), x.narrow(0, first, rows), dweights[expert]);
  });
}

void sum_expert_rows(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1), X = call.extent(2);
  const at::Tensor rows = rows_of_experts(call.inputs[1], X);
  out(call, 0, {X, n})
      .copy_(at::segment_reduce(wide(in(call, 0, {R, n})), "sum", rows, {}, {}, /*axis=*/0,
                                /*unsafe=*/true, /*initial=*/0));
}

}  // namespace

void enter_aten_experts(KernelTable& table) {
  entry(table, Kernel::regroup) = regroup;
  entry(table, Kernel::ungroup) = ungroup;
  entry(table, Kernel::grouped_matmul) = grouped_matmul;
  entry(table, Kernel::grouped_matmul_input_backward) = grouped_matmul_input_backward;
  entry(table, Kernel::grouped_matmul_weight_backward) = grouped_matmul_weight_backward;
  entry(table, Kernel::sum_expert_rows) = sum_expert_rows;
}

}  // namespace xt
