// Rows of several experts: regrouped from the order they arrive in, and multiplied by the weight of
// their expert. counts[r][x] says how many rows of local expert x came from rank r.

#include <cstddef>
#include <cstring>
#include <vector>

#include "executor/kernels/gemm.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/narrow_operands.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/row_sums.h"

namespace xt {
namespace {

// Rows of each expert, from all ranks.
std::vector<std::int64_t> rows_of_experts(const at::Tensor& counts, std::int64_t X,
                                          std::int64_t rows) {
  XT_CHECK(X > 0 && counts.numel() % X == 0, counts.numel(), X);
  const std::int64_t ranks = counts.numel() / X;
  const auto* count = elements<std::int64_t>(counts, ranks * X);
  std::vector<std::int64_t> result(static_cast<std::size_t>(X));
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < ranks * X; ++i) {
    XT_CHECK(count[i] >= 0, count[i]);
    result[static_cast<std::size_t>(i % X)] += count[i];
    sum += count[i];
  }
  XT_CHECK(sum == rows, sum, rows);
  return result;
}

// Rows received lie by rank and then by expert, grouped rows by expert and then by rank.
enum class Direction : bool { to_grouped, to_received };

void move_groups(const KernelCall& call, Direction direction) {
  const std::int64_t R = call.extent(0), E = call.extent(1), ep = call.extent(2),
                     X = call.extent(3);
  const auto* counts = elements<std::int64_t>(call.inputs[1], ep * X);
  const at::Tensor& from = call.inputs[0];
  XT_CHECK(from.numel() == R * E && call.outputs[0].numel() == R * E, R, E);
  XT_CHECK(from.scalar_type() == call.outputs[0].scalar_type());
  const std::int64_t row_bytes = E * static_cast<std::int64_t>(from.element_size());
  const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
  auto* target = static_cast<std::byte*>(call.outputs[0].mutable_data_ptr());
  std::vector<std::int64_t> next(static_cast<std::size_t>(X));
  const std::vector<std::int64_t> rows = rows_of_experts(call.inputs[1], X, R);
  for (std::size_t x = 1; x < next.size(); ++x) next[x] = next[x - 1] + rows[x - 1];
  std::int64_t received = 0;
  for (std::int64_t i = 0; i < ep * X; ++i) {
    std::int64_t& grouped = next[static_cast<std::size_t>(i % X)];
    const bool groups = direction == Direction::to_grouped;
    std::memcpy(target + (groups ? grouped : received) * row_bytes,
                source + (groups ? received : grouped) * row_bytes,
                static_cast<std::size_t>(counts[i] * row_bytes));
    received += counts[i];
    grouped += counts[i];
  }
}

void regroup(const KernelCall& call) { move_groups(call, Direction::to_grouped); }

void ungroup(const KernelCall& call) { move_groups(call, Direction::to_received); }

// The fp32 matrix of one expert after the other: each where it lies, or by turns in the workspace.
class ExpertWeights {
 public:
  ExpertWeights(const at::Tensor& all, std::int64_t experts, std::int64_t each)
      : all_(all), each_(each) {
    XT_CHECK(all.numel() == experts * each && all.is_contiguous(), all.numel(), experts, each);
    if (all.scalar_type() != at::kFloat) copy_ = scratch(each, 1);
  }
  const float* load(std::int64_t expert) const {
    if (!copy_.defined()) return all_.const_data_ptr<float>() + expert * each_;
    widen(all_.const_data_ptr<c10::BFloat16>() + expert * each_, each_, place(expert));
    return place(expert);
  }
  float* place(std::int64_t expert) const {
    if (!copy_.defined()) return all_.mutable_data_ptr<float>() + expert * each_;
    return copy_.mutable_data_ptr<float>();
  }
  void store(std::int64_t expert) const {
    if (copy_.defined())
      narrow(place(expert), each_, all_.mutable_data_ptr<c10::BFloat16>() + expert * each_);
  }

 private:
  at::Tensor all_, copy_;
  std::int64_t each_;
};

// Calls `function(expert, first row, rows)` for each of X experts.
template <typename Function>
void for_experts(const at::Tensor& counts, std::int64_t R, std::int64_t X,
                 const Function& function) {
  const std::vector<std::int64_t> rows = rows_of_experts(counts, X, R);
  std::int64_t first = 0;
  for (std::int64_t x = 0; x < X; ++x) {
    const std::int64_t n = rows[static_cast<std::size_t>(x)];
    function(x, first, n);
    first += n;
  }
}

template <typename Function>
void for_experts(const KernelCall& call, const Function& function) {
  for_experts(call.inputs[2], call.extent(0), call.extent(3), function);
}

// Weights are [n,k], or [k,n] where they are transposed.
bool is_transposed(const KernelCall& call) { return call.extent(4) > 0; }

// C [R, columns] = rows [R, inner] by the weight of their expert, [inner, columns] as read.
struct RowProduct {
  std::int64_t R, columns, inner;
  bool transposes_weight;

  std::int64_t stride() const { return transposes_weight ? inner : columns; }
  std::int64_t weight() const { return inner * columns; }
};

// The weight of an expert, [rows, columns] = Aᵀ · B of its own of R rows of each.
struct WeightProduct {
  std::int64_t R, rows, columns;
  std::size_t a, b;  ///< inputs

  std::int64_t weight() const { return rows * columns; }
};

RowProduct forward(const KernelCall& call) {
  return {call.extent(0), call.extent(1), call.extent(2), !is_transposed(call)};
}

RowProduct input_backward(const KernelCall& call) {
  return {call.extent(0), call.extent(2), call.extent(1), is_transposed(call)};
}

WeightProduct weight_backward(const KernelCall& call) {
  if (is_transposed(call)) return {call.extent(0), call.extent(2), call.extent(1), 1, 0};
  return {call.extent(0), call.extent(1), call.extent(2), 0, 1};
}

// Rows of y begin as the bias of their expert, so that the product adds to it.
void begin_with(const at::Tensor& bias, std::int64_t expert, std::int64_t rows, std::int64_t n,
                float* y) {
  with_element_of(bias, [&](auto element) {
    const auto* of = bias.const_data_ptr<decltype(element)>() + expert * n;
    for (std::int64_t row = 0; row < rows; ++row) widen_row(of, n, y + row * n);
  });
}

void multiply_wide(const KernelCall& call, const RowProduct& of) {
  const std::int64_t n = of.columns, k = of.inner;
  const bool has_bias = call.inputs.size() > 3;
  const WideInput x(call.inputs[0], of.R * k);
  const WideOutput y(call.outputs[0], of.R * n);
  const ExpertWeights weights(call.inputs[1], call.extent(3), of.weight());
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    float* out = y.data() + first * n;
    if (has_bias) begin_with(call.inputs[3], expert, rows, n, out);
    gemm(rows, n, k, {x.data() + first * k, k},
         {weights.load(expert), of.stride(), of.transposes_weight},
         {out, n, has_bias ? 1.0f : 0.0f});
  });
  y.store();
}

void multiply_narrow(const KernelCall& call, const RowProduct& of) {
  const std::int64_t n = of.columns, k = of.inner, X = call.extent(3);
  const auto* x = elements<c10::BFloat16>(call.inputs[0], of.R * k);
  const auto* weights = elements<c10::BFloat16>(call.inputs[1], X * of.weight());
  const auto* bias =
      call.inputs.size() > 3 ? elements<c10::BFloat16>(call.inputs[3], X * n) : nullptr;
  auto* y = writable<c10::BFloat16>(call.outputs[0], of.R * n);
  const NarrowWorkspace workspace(of.R * k, of.weight(), of.R * n);
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    bf16_gemm(rows, n, k, {x + first * k, k},
              {weights + expert * of.weight(), of.stride(), of.transposes_weight},
              {y + first * n, n, bias == nullptr ? nullptr : bias + expert * n},
              workspace.pointers());
  });
}

void multiply_wide(const KernelCall& call, const WeightProduct& of) {
  const WideInput a(call.inputs[of.a], of.R * of.rows), b(call.inputs[of.b], of.R * of.columns);
  const ExpertWeights dweights(call.outputs[0], call.extent(3), of.weight());
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    float* dweight = dweights.place(expert);
    if (rows == 0)
      std::fill_n(dweight, of.weight(), 0.0f);
    else
      gemm(of.rows, of.columns, rows, {a.data() + first * of.rows, of.rows, true},
           {b.data() + first * of.columns, of.columns}, {dweight, of.columns});
    dweights.store(expert);
  });
}

void multiply_narrow(const KernelCall& call, const WeightProduct& of) {
  const auto* a = elements<c10::BFloat16>(call.inputs[of.a], of.R * of.rows);
  const auto* b = elements<c10::BFloat16>(call.inputs[of.b], of.R * of.columns);
  auto* dweights = writable<c10::BFloat16>(call.outputs[0], call.extent(3) * of.weight());
  const NarrowWorkspace workspace(of.R * of.rows, of.R * of.columns, of.weight());
  for_experts(call, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    auto* dweight = dweights + expert * of.weight();
    if (rows == 0)
      std::fill_n(dweight, of.weight(), c10::BFloat16(0));
    else
      bf16_gemm(of.rows, of.columns, rows, {a + first * of.rows, of.rows, true},
                {b + first * of.columns, of.columns}, {dweight, of.columns}, workspace.pointers());
  });
}

template <Bf16Products products, auto of>
void multiply(const KernelCall& call) {
  if (products == Bf16Products::as_they_are && is_narrow(call))
    multiply_narrow(call, of(call));
  else
    multiply_wide(call, of(call));
}

// Sums are in fp32, one row after the other.
void sum_expert_rows(const KernelCall& call) {
  const std::int64_t R = call.extent(0), n = call.extent(1), X = call.extent(2);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const T* dy = elements<T>(call.inputs[0], R * n);
    T* sums = writable<T>(call.outputs[0], X * n);
    for_experts(call.inputs[1], R, X,
                [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
                  sum_columns(dy + first * n, rows, n, 0, n, sums + expert * n);
                });
  });
}

template <Bf16Products products>
void enter_products(KernelTable& table) {
  entry(table, Kernel::grouped_matmul) = multiply<products, forward>;
  entry(table, Kernel::grouped_matmul_input_backward) = multiply<products, input_backward>;
  entry(table, Kernel::grouped_matmul_weight_backward) = multiply<products, weight_backward>;
}

}  // namespace

void enter_experts(KernelTable& table, Bf16Products products) {
  entry(table, Kernel::regroup) = regroup;
  entry(table, Kernel::ungroup) = ungroup;
  entry(table, Kernel::sum_expert_rows) = sum_expert_rows;
  if (products == Bf16Products::as_they_are)
    enter_products<Bf16Products::as_they_are>(table);
  else
    enter_products<Bf16Products::widened>(table);
}

}  // namespace xt
