// LayerNorm without bias: y = (x − mean) · rstd · weight with rstd = 1 / sqrt(var(x) + eps).
//
// Source: Ba, Kiros and Hinton 2016, "Layer Normalization", arXiv 1607.06450

#include <cmath>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// What of a row the backward pass needs again.
struct Moments {
  float mean, rstd;
};

template <typename T>
XT_PER_INSTRUCTION_SET Moments moments(const T* x, std::int64_t columns, float eps) {
  const auto n = static_cast<float>(columns);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < columns; ++i) sum += wide(x[i]);
  const float mean = sum / n;
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < columns; ++i) squares += (wide(x[i]) - mean) * (wide(x[i]) - mean);
  return {mean, 1.0f / std::sqrt(squares / n + eps)};
}

template <typename T>
XT_PER_INSTRUCTION_SET void normalise(const T* x, const T* weight, std::int64_t columns,
                                      const Moments& of, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i)
    put(y[i], (wide(x[i]) - of.mean) * of.rstd * wide(weight[i]));
}

// With g = weight·dy and z = (x − mean)·rstd:  dx = rstd · (g − mean(g) − z · mean(g·z))
template <typename T>
XT_PER_INSTRUCTION_SET void backward_of_x(const T* dy, const T* x, const T* weight,
                                          std::int64_t columns, const Moments& of, T* dx) {
  const auto n = static_cast<float>(columns);
  float sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
  for (std::int64_t i = 0; i < columns; ++i) {
    const float g = wide(weight[i]) * wide(dy[i]);
    sum += g;
    along += g * ((wide(x[i]) - of.mean) * of.rstd);
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const float z = (wide(x[i]) - of.mean) * of.rstd;
    put(dx[i], of.rstd * (wide(weight[i]) * wide(dy[i]) - sum / n - z * along / n));
  }
}

void layer_norm(const KernelCall& call) {
  const std::int64_t rows = call.extent(0), columns = call.extent(1);
  const auto eps = static_cast<float>(call.constants.rms_norm_eps);
  auto* kept = writable<float>(call.outputs[1], 2 * rows);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const auto* x = elements<T>(call.inputs[0], rows * columns);
    const auto* weight = elements<T>(call.inputs[1], columns);
    T* y = writable<T>(call.outputs[0], rows * columns);
    for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Moments of = moments(x + row * columns, columns, eps);
        kept[2 * row] = of.mean;
        kept[2 * row + 1] = of.rstd;
        normalise(x + row * columns, weight, columns, of, y + row * columns);
      }
    });
  });
}

// Threads split rows for one gradient and columns for the other, so that every sum runs in the same
// order whatever their number.
void layer_norm_backward(const KernelCall& call) {
  const std::int64_t rows = call.extent(0), columns = call.extent(1);
  const auto* kept = elements<float>(call.inputs[3], 2 * rows);
  const WideOutput dweight(call.outputs[1], columns);
  std::fill_n(dweight.data(), columns, 0.0f);
  with_element_of(call.inputs[0], [&](auto element) {
    using T = decltype(element);
    const auto* dy = elements<T>(call.inputs[0], rows * columns);
    const auto* x = elements<T>(call.inputs[1], rows * columns);
    const auto* weight = elements<T>(call.inputs[2], columns);
    T* dx = writable<T>(call.outputs[0], rows * columns);
    for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        backward_of_x(dy + row * columns, x + row * columns, weight, columns,
                      {kept[2 * row], kept[2 * row + 1]}, dx + row * columns);
    });
    for_rows(columns, rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = begin; i < end; ++i)
          dweight.data()[i] += wide(dy[row * columns + i]) *
                               ((wide(x[row * columns + i]) - kept[2 * row]) * kept[2 * row + 1]);
    });
  });
  dweight.store();
}

}  // namespace

void enter_layer_norm(KernelTable& table) {
  entry(table, Kernel::layer_norm) = layer_norm;
  entry(table, Kernel::layer_norm_backward) = layer_norm_backward;
}

}  // namespace xt
