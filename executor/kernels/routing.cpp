// The router, and the rows of tokens it sends to experts. A slot is token·k + j; rows are sorted by
// expert and, within one, by slot. order[i] is the slot of row i.

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// Leaves the k largest logits, descending, in `top`; of equals the first comes first.
template <typename T>
void select(const T* logits, std::int64_t experts, std::int64_t k, float* top,
            std::int64_t* indices) {
  std::int64_t held = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const float logit = wide(logits[expert]);
    if (held == k && !(logit > top[k - 1])) continue;
    std::int64_t place = held < k ? held++ : k - 1;
    for (; place > 0 && logit > top[place - 1]; --place) {
      top[place] = top[place - 1];
      indices[place] = indices[place - 1];
    }
    top[place] = logit;
    indices[place] = expert;
  }
}

template <typename T>
XT_PER_INSTRUCTION_SET float sum_of_exponentials(const T* logits, std::int64_t n, float top) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += exponential(wide(logits[i]) - top);
  return sum;
}

void softmax_top_k(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  auto* weights = writable<float>(call.outputs[0], T * k);
  auto* indices = writable<std::int64_t>(call.outputs[1], T * k);
  const bool is_renormalised = call.constants.norm_topk_prob;
  with_element_of(call.inputs[0], [&](auto element) {
    const auto* logits = elements<decltype(element)>(call.inputs[0], T * X);
    for_rows(T, 8 * X, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        float* w = weights + t * k;
        select(logits + t * X, X, k, w, indices + t * k);
        const float top = w[0];
        const float sum = is_renormalised ? sum_of_exponentials(w, k, top)
                                          : sum_of_exponentials(logits + t * X, X, top);
        for (std::int64_t j = 0; j < k; ++j) w[j] = exponential(w[j] - top) / sum;
      }
    });
  });
}

// dlogits = p · (dp − Σ p·dp), p the softmax over the chosen experts or, if it was not
// renormalised, over all of them; dp is zero but for the chosen.
template <typename T>
XT_PER_INSTRUCTION_SET void softmax_backward(const T* logits, const float* dweights,
                                             const std::int64_t* indices, std::int64_t X,
                                             std::int64_t k, bool is_renormalised, T* dlogits) {
  const float top = is_renormalised ? wide(logits[indices[0]]) : largest(logits, X);
  float sum = 0, along = 0;
  if (!is_renormalised) sum = sum_of_exponentials(logits, X, top);
  for (std::int64_t j = 0; j < k; ++j) {
    const float e = exponential(wide(logits[indices[j]]) - top);
    if (is_renormalised) sum += e;
    along += e * dweights[j];
  }
  along /= sum;
#pragma omp simd
  for (std::int64_t x = 0; x < X; ++x) {
    const float p = exponential(wide(logits[x]) - top) / sum;
    put(dlogits[x], is_renormalised ? 0.0f : -p * along);
  }
  for (std::int64_t j = 0; j < k; ++j) {
    const float p = exponential(wide(logits[indices[j]]) - top) / sum;
    put(dlogits[indices[j]], p * (dweights[j] - along));
  }
}

void softmax_top_k_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  const auto* dweights = elements<float>(call.inputs[0], T * k);
  const auto* indices = elements<std::int64_t>(call.inputs[2], T * k);
  const bool is_renormalised = call.constants.norm_topk_prob;
  with_element_of(call.inputs[1], [&](auto element) {
    using Element = decltype(element);
    const auto* logits = elements<Element>(call.inputs[1], T * X);
    auto* dlogits = writable<Element>(call.outputs[0], T * X);
    for_rows(T, 4 * X, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        softmax_backward(logits + t * X, dweights + t * k, indices + t * k, X, k, is_renormalised,
                         dlogits + t * X);
    });
  });
}

// A counting sort in the outputs themselves: counts become the ends of the experts' rows, and
// counts again.
void sort_rows(const KernelCall& call) {
  const std::int64_t X = call.extent(1), slots = call.extent(0) * call.extent(2);
  const auto* indices = elements<std::int64_t>(call.inputs[0], slots);
  auto* order = writable<std::int64_t>(call.outputs[0], slots);
  auto* counts = writable<std::int64_t>(call.outputs[1], X);
  std::fill_n(counts, X, 0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    XT_CHECK(indices[slot] >= 0 && indices[slot] < X, indices[slot], X);
    ++counts[indices[slot]];
  }
  std::int64_t next = 0;
  for (std::int64_t x = 0; x < X; ++x) next += std::exchange(counts[x], next);
  for (std::int64_t slot = 0; slot < slots; ++slot) order[counts[indices[slot]]++] = slot;
  for (std::int64_t x = X - 1; x > 0; --x) counts[x] -= counts[x - 1];
}

// Extents and operands of the kernels that move rows between token and expert order.
struct Routed {
  std::int64_t T, E, k, slots;
  const std::int64_t* order;

  Routed(const KernelCall& call, const at::Tensor& sorted)
      : T(call.extent(0)), E(call.extent(1)), k(call.extent(2)), slots(T * k) {
    order = elements<std::int64_t>(sorted, slots);
  }
};

// The row of each slot.
at::Tensor rows_of_slots(const Routed& of) {
  at::Tensor rows = at::empty({of.slots}, at::kInt);
  auto* row = rows.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < of.slots; ++i) row[of.order[i]] = static_cast<std::int32_t>(i);
  return rows;
}

void permute(const KernelCall& call) {
  const Routed of(call, call.inputs[1]);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* x = elements<Element>(call.inputs[0], of.T * of.E);
    auto* rows = writable<Element>(call.outputs[0], of.slots * of.E);
    const auto row_bytes = static_cast<std::size_t>(of.E) * sizeof(Element);
    for_rows(of.slots, of.E, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(rows + i * of.E, x + of.order[i] / of.k * of.E, row_bytes);
    });
  });
}

// A token's column is summed over its k rows in a register. Without weights each row counts once.
template <bool is_weighted, bool adds, typename T>
XT_PER_INSTRUCTION_SET void gather_sum(const T* rows, const std::int32_t* row_of_slot,
                                       const float* weights, std::int64_t k, std::int64_t E,
                                       std::int64_t begin, std::int64_t end, T* y) {
  constexpr std::int64_t strip = 64;
  float sums[strip];
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t first = 0; first < E; first += strip) {
      const std::int64_t n = std::min(strip, E - first);
      T* out = y + t * E + first;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sums[i] = adds ? wide(out[i]) : 0.0f;
      for (std::int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
        const T* row = rows + row_of_slot[slot] * E + first;
        const float weight = is_weighted ? weights[slot] : 1.0f;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sums[i] += weight * wide(row[i]);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) put(out[i], sums[i]);
    }
  }
}

template <bool is_weighted, bool adds>
void gather_all(const KernelCall& call, const float* weights) {
  const Routed of(call, call.inputs[1]);
  const at::Tensor inverse = rows_of_slots(of);
  const auto* row_of_slot = inverse.const_data_ptr<std::int32_t>();
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* rows = elements<Element>(call.inputs[0], of.slots * of.E);
    auto* y = writable<Element>(call.outputs[0], of.T * of.E);
    for_rows(of.T, of.k * of.E, [&](std::int64_t begin, std::int64_t end) {
      gather_sum<is_weighted, adds>(rows, row_of_slot, weights, of.k, of.E, begin, end, y);
    });
  });
}

void permute_backward_add(const KernelCall& call) { gather_all<false, true>(call, nullptr); }

void unpermute(const KernelCall& call) {
  gather_all<true, false>(call, elements<float>(call.inputs[2], call.extent(0) * call.extent(2)));
}

template <typename T>
XT_PER_INSTRUCTION_SET void unpermute_backward_rows(const Routed& of, const T* dy, const T* rows,
                                                    const float* weights, std::int64_t begin,
                                                    std::int64_t end, T* drows, float* dweights) {
  const std::int64_t E = of.E;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t slot = of.order[i];
    const T* d = dy + slot / of.k * E;
    T* out = drows + i * E;
    const float weight = weights[slot];
    dweights[slot] = dot(d, rows + i * E, E);
#pragma omp simd
    for (std::int64_t e = 0; e < E; ++e) put(out[e], weight * wide(d[e]));
  }
}

void unpermute_backward(const KernelCall& call) {
  const Routed of(call, call.inputs[2]);
  const auto* weights = elements<float>(call.inputs[3], of.slots);
  auto* dweights = writable<float>(call.outputs[1], of.slots);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* dy = elements<Element>(call.inputs[0], of.T * of.E);
    const auto* rows = elements<Element>(call.inputs[1], of.slots * of.E);
    auto* drows = writable<Element>(call.outputs[0], of.slots * of.E);
    for_rows(of.slots, of.E, [&](std::int64_t begin, std::int64_t end) {
      unpermute_backward_rows(of, dy, rows, weights, begin, end, drows, dweights);
    });
  });
}

}  // namespace

void enter_routing(KernelTable& table) {
  entry(table, Kernel::softmax_top_k) = softmax_top_k;
  entry(table, Kernel::softmax_top_k_backward) = softmax_top_k_backward;
  entry(table, Kernel::sort_rows) = sort_rows;
  entry(table, Kernel::permute) = permute;
  entry(table, Kernel::permute_backward_add) = permute_backward_add;
  entry(table, Kernel::unpermute) = unpermute;
  entry(table, Kernel::unpermute_backward) = unpermute_backward;
}

}  // namespace xt
