// RMSNorm: y = x · rstd · weight with rstd = 1 / sqrt(mean(x²) + eps).
//
// Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4

#include <cmath>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

template <typename T>
struct Norm {
  std::int64_t columns;
  const T* x;
  const T* weight;
};

template <typename T>
XT_PER_INSTRUCTION_SET void normalise(const Norm<T>& of, float eps, std::int64_t begin,
                                      std::int64_t end, T* y, float* rstd) {
  const std::int64_t columns = of.columns;
  const T* weight = of.weight;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = of.x + row * columns;
    T* out = y + row * columns;
    const float mean_square = dot(x, x, columns) / static_cast<float>(columns);
    const float scale = 1.0f / std::sqrt(mean_square + eps);
    rstd[row] = scale;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) put(out[i], wide(x[i]) * scale * wide(weight[i]));
  }
}

// dx = rstd · (weight·dy − x · rstd² · mean(weight·dy·x))
template <typename T>
XT_PER_INSTRUCTION_SET void backward_of_x(const Norm<T>& of, const T* dy, const float* rstd,
                                          std::int64_t begin, std::int64_t end, T* dx) {
  const std::int64_t columns = of.columns;
  const T* weight = of.weight;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = of.x + row * columns;
    const T* g = dy + row * columns;
    T* out = dx + row * columns;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) sum += wide(weight[i]) * wide(g[i]) * wide(x[i]);
    const float scale = rstd[row];
    const float along_x = scale * scale * scale * sum / static_cast<float>(columns);
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      put(out[i], scale * (wide(weight[i]) * wide(g[i])) - along_x * wide(x[i]));
  }
}

// dweight += Σ over rows of dy · x · rstd, for some columns.
template <typename T>
XT_PER_INSTRUCTION_SET void backward_of_weight(const Norm<T>& of, const T* dy, const float* rstd,
                                               std::int64_t begin, std::int64_t end,
                                               std::int64_t first_column, std::int64_t last_column,
                                               float* dweight) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = of.x + row * of.columns;
    const T* g = dy + row * of.columns;
    const float scale = rstd[row];
#pragma omp simd
    for (std::int64_t i = first_column; i < last_column; ++i)
      dweight[i] += wide(g[i]) * (wide(x[i]) * scale);
  }
}

// One thread takes both gradients of a few rows while they are in its cache; several split rows for
// one and columns for the other. Every sum runs in the same order either way.
template <typename T>
void backward(const Norm<T>& of, std::int64_t rows, const T* dy, const float* rstd, T* dx,
              float* dweight) {
  constexpr std::int64_t rows_in_cache = 8;
  std::fill_n(dweight, of.columns, 0.0f);
  if (at::get_num_threads() == 1) {
    for (std::int64_t begin = 0; begin < rows; begin += rows_in_cache) {
      const std::int64_t end = std::min(begin + rows_in_cache, rows);
      backward_of_x(of, dy, rstd, begin, end, dx);
      backward_of_weight(of, dy, rstd, begin, end, 0, of.columns, dweight);
    }
    return;
  }
  for_rows(rows, of.columns, [&](std::int64_t begin, std::int64_t end) {
    backward_of_x(of, dy, rstd, begin, end, dx);
  });
  for_rows(of.columns, rows, [&](std::int64_t begin, std::int64_t end) {
    backward_of_weight(of, dy, rstd, 0, rows, begin, end, dweight);
  });
}

void rms_norm(const KernelCall& call) {
  const std::int64_t rows = call.extent(0), columns = call.extent(1);
  const auto eps = static_cast<float>(call.constants.rms_norm_eps);
  auto* rstd = writable<float>(call.outputs[1], rows);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const Norm<T> norm{columns, elements<T>(call.inputs[0], rows * columns),
                       elements<T>(call.inputs[1], columns)};
    T* y = writable<T>(call.outputs[0], rows * columns);
    for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
      normalise(norm, eps, begin, end, y, rstd);
    });
  });
}

void rms_norm_backward(const KernelCall& call) {
  const std::int64_t rows = call.extent(0), columns = call.extent(1);
  const std::int64_t n = rows * columns;
  const auto* rstd = elements<float>(call.inputs[3], rows);
  const WideOutput dweight(call.outputs[1], columns);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const Norm<T> norm{columns, elements<T>(call.inputs[1], n),
                       elements<T>(call.inputs[2], columns)};
    backward(norm, rows, elements<T>(call.inputs[0], n), rstd, writable<T>(call.outputs[0], n),
             dweight.data());
  });
  dweight.store();
}

}  // namespace

void enter_norms(KernelTable& table) {
  entry(table, Kernel::rms_norm) = rms_norm;
  entry(table, Kernel::rms_norm_backward) = rms_norm_backward;
}

}  // namespace xt
