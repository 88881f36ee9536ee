// Cross-entropy that leaves the gradient of the logits in their place.

#include <cmath>
#include <type_traits>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

/// The label of a token that does not count.
constexpr std::int64_t ignored = -100;

// Where logits are fp32 their exponentials are kept between the two passes, elsewhere computed
// again, as rounding them would double the error.
template <typename T>
constexpr bool keeps_exponentials = std::is_same_v<T, float>;

template <typename T>
XT_PER_INSTRUCTION_SET float exponentiate(T* row, std::int64_t V, float top) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < V; ++i) {
    const float e = exponential(wide(row[i]) - top);
    if constexpr (keeps_exponentials<T>) put(row[i], e);
    sum += e;
  }
  return sum;
}

template <typename T>
XT_PER_INSTRUCTION_SET void scale_exponentials(T* row, std::int64_t V, float top, float factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < V; ++i) {
    const float e = keeps_exponentials<T> ? wide(row[i]) : exponential(wide(row[i]) - top);
    put(row[i], e * factor);
  }
}

template <typename T>
XT_PER_INSTRUCTION_SET float largest_logit(const T* row, std::int64_t V) {
  return largest(row, V);
}

// −log p of the label; the row becomes (p − onehot) / valid tokens.
template <typename T>
float differentiate(T* row, std::int64_t V, std::int64_t label, float valid_tokens) {
  if (label == ignored) {
    std::fill_n(row, V, T{});
    return 0;
  }
  XT_CHECK(label >= 0 && label < V, label, V);
  const float logit = wide(row[label]);
  const float top = largest_logit(row, V);
  const float sum = exponentiate(row, V, top);
  scale_exponentials(row, V, top, 1.0f / (sum * valid_tokens));
  const float probability = exponential(logit - top) / sum;
  put(row[label], (probability - 1.0f) / valid_tokens);
  return std::log(sum) + (top - logit);
}

void cross_entropy(const KernelCall& call) {
  const std::int64_t C = call.extent(0), V = call.extent(1);
  const auto* labels = elements<std::int64_t>(call.inputs[0], C);
  const float valid_tokens = *elements<float>(call.inputs[1], 1);
  const at::Tensor row_losses = scratch(C, 1);
  auto* losses = row_losses.mutable_data_ptr<float>();
  with_element_of(call.outputs[0], [&](auto element) {
    auto* logits = writable<decltype(element)>(call.outputs[0], C * V);
    for_rows(C, V, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c)
        losses[c] = differentiate(logits + c * V, V, labels[c], valid_tokens);
    });
  });
  double sum = 0;
  for (std::int64_t c = 0; c < C; ++c) sum += static_cast<double>(losses[c]);
  if (sum != 0)
    *writable<float>(call.outputs[1], 1) +=
        static_cast<float>(sum / static_cast<double>(valid_tokens));
}

}  // namespace

void enter_loss(KernelTable& table) { entry(table, Kernel::cross_entropy) = cross_entropy; }

}  // namespace xt
