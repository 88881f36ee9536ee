// Columns of rows that go to columns of other rows: parts of heads, and what all heads share.

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// R W from Q U to n, of ir/kernel.h.
struct Columns {
  std::int64_t R, W, from, Q, U, to, n;

  explicit Columns(const KernelCall& call)
      : R(call.extent(0)),
        W(call.extent(1)),
        from(call.extent(2)),
        Q(call.extent(3)),
        U(call.extent(4)),
        to(call.extent(5)),
        n(call.extent(6)) {
    XT_CHECK(from + n <= W && to + n <= U, from, n, W, to, U);
    XT_CHECK(R % Q == 0 || Q % R == 0, R, Q);
  }
  std::int64_t rows_summed() const { return R > Q ? R / Q : 1; }
  std::int64_t first_row(std::int64_t row) const { return R > Q ? row * (R / Q) : row / (Q / R); }
};

template <bool adds, typename T>
XT_PER_INSTRUCTION_SET void move_columns(const Columns& of, const T* x, std::int64_t begin,
                                         std::int64_t end, T* y) {
  const std::int64_t summed = of.rows_summed();
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = x + of.first_row(row) * of.W + of.from;
    T* out = y + row * of.U;
    if (!adds) std::fill(out, out + of.U, T(0));
    for (std::int64_t i = 0; i < of.n; ++i) {
      float sum = adds ? wide(out[of.to + i]) : 0.0f;
      for (std::int64_t r = 0; r < summed; ++r) sum += wide(in[r * of.W + i]);
      put(out[of.to + i], sum);
    }
  }
}

template <bool adds>
void move_all(const KernelCall& call) {
  const Columns of(call);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* x = elements<Element>(call.inputs[0], of.R * of.W);
    auto* y = writable<Element>(call.outputs[0], of.Q * of.U);
    for_rows(of.Q, of.U + of.rows_summed() * of.n, [&](std::int64_t begin, std::int64_t end) {
      move_columns<adds>(of, x, begin, end, y);
    });
  });
}

}  // namespace

void enter_columns(KernelTable& table) {
  entry(table, Kernel::copy_columns) = move_all<false>;
  entry(table, Kernel::add_columns) = move_all<true>;
}

}  // namespace xt
