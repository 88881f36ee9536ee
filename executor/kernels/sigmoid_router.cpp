// The router of DeepSeek-V3: scores by sigmoid, a bias of the choice that learns by counts, and
// groups of experts of which a token goes to some alone.
//
// Source: DeepSeek-V3 technical report 2024, arXiv 2412.19437, section 2.1.2; Hugging Face
// transformers, modeling_deepseek_v3.py

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

constexpr float excluded = -std::numeric_limits<float>::infinity();

// The sum of the two best scores of a group.
float score_of_group(const float* scores, std::int64_t n) {
  float best = excluded, second = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (scores[i] > best) {
      second = i == 0 ? 0 : best;
      best = scores[i];
    } else if (i == 1 || scores[i] > second) {
      second = scores[i];
    }
  }
  return best + second;
}

// Excludes what is in other than the best `chosen` of `groups` groups; of equals the first stays.
void keep_groups(float* scores, std::int64_t experts, std::int64_t groups, std::int64_t chosen) {
  const std::int64_t n = experts / groups;
  const auto score = [&](std::int64_t group) { return score_of_group(scores + group * n, n); };
  std::int64_t left = groups;
  for (; left > chosen; --left) {
    std::int64_t worst = -1;
    float lowest = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      if (scores[group * n] == excluded) continue;
      const float of_group = score(group);
      if (worst >= 0 && of_group > lowest) continue;
      worst = group;
      lowest = of_group;
    }
    std::fill_n(scores + worst * n, n, excluded);
  }
}

// The best one each time, which is then out; of equals the first one.
void take_best(float* scores, std::int64_t experts, std::int64_t k, std::int64_t* indices) {
  for (std::int64_t j = 0; j < k; ++j) {
    indices[j] = std::max_element(scores, scores + experts) - scores;
    scores[indices[j]] = excluded;
  }
}

// Of a token's experts: what divides their scores, and the model's factor.
struct Weighting {
  float sum, scale;

  template <typename T>
  Weighting(const T* logits, const std::int64_t* indices, std::int64_t k,
            const ModelConstants& constants)
      : sum(1), scale(static_cast<float>(constants.router_scale)) {
    if (!constants.norm_topk_prob) return;
    sum = 1e-20f;
    for (std::int64_t j = 0; j < k; ++j) sum += sigmoid(wide(logits[indices[j]]));
  }
};

void sigmoid_top_k(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  auto* weights = writable<float>(call.outputs[0], T * k);
  auto* indices = writable<std::int64_t>(call.outputs[1], T * k);
  const float* bias = call.inputs.size() > 1 ? elements<float>(call.inputs[1], X) : nullptr;
  const at::Tensor all = scratch(T, X);
  auto* scores = all.mutable_data_ptr<float>();
  const ModelConstants& of = call.constants;
  with_element_of(call.inputs[0], [&](auto element) {
    const auto* logits = elements<decltype(element)>(call.inputs[0], T * X);
    for_rows(T, 8 * X, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const auto* row = logits + t * X;
        float* s = scores + t * X;
        for (std::int64_t x = 0; x < X; ++x)
          s[x] = sigmoid(wide(row[x])) + (bias == nullptr ? 0.0f : bias[x]);
        keep_groups(s, X, of.router_groups, of.chosen_groups);
        take_best(s, X, k, indices + t * k);
        const Weighting by(row, indices + t * k, k, of);
        for (std::int64_t j = 0; j < k; ++j)
          weights[t * k + j] = sigmoid(wide(row[indices[t * k + j]])) / by.sum * by.scale;
      }
    });
  });
}

// With w = s · scale / Σs over the chosen, ds = (dw − Σ dw·s / Σs) · scale / Σs; without the sum,
// ds = dw · scale. dlogit = ds · s · (1 − s); nothing for those not chosen.
void sigmoid_top_k_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  const auto* dweights = elements<float>(call.inputs[0], T * k);
  const auto* indices = elements<std::int64_t>(call.inputs[2], T * k);
  with_element_of(call.inputs[1], [&](auto element) {
    using Element = decltype(element);
    const auto* logits = elements<Element>(call.inputs[1], T * X);
    auto* dlogits = writable<Element>(call.outputs[0], T * X);
    for_rows(T, 4 * X, [&](std::int64_t begin, std::int64_t end) {
      std::fill(dlogits + begin * X, dlogits + end * X, Element(0));
      for (std::int64_t t = begin; t < end; ++t) {
        const auto* row = logits + t * X;
        const Weighting by(row, indices + t * k, k, call.constants);
        float along = 0;
        for (std::int64_t j = t * k; call.constants.norm_topk_prob && j < (t + 1) * k; ++j)
          along += dweights[j] * sigmoid(wide(row[indices[j]])) / by.sum;
        for (std::int64_t j = t * k; j < (t + 1) * k; ++j) {
          const float s = sigmoid(wide(row[indices[j]]));
          put(dlogits[t * X + indices[j]], (dweights[j] - along) * by.scale / by.sum * s * (1 - s));
        }
      }
    });
  });
}

void count_rows(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), k = call.extent(2);
  const auto* indices = elements<std::int64_t>(call.inputs[0], T * k);
  auto* load = writable<float>(call.outputs[0], X);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(X), 0);
  for (std::int64_t i = 0; i < call.extent(3) * k; ++i)
    ++counts[static_cast<std::size_t>(indices[i])];
  for (std::int64_t x = 0; x < X; ++x)
    load[x] += static_cast<float>(counts[static_cast<std::size_t>(x)]);
}

// Up where an expert got fewer rows than the mean, down where it got more; a step whose gradients
// are no numbers changes nothing.
//
// Source: Wang et al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664, algorithm 1
void update_router_bias(const KernelCall& call) {
  const std::int64_t X = call.extent(0);
  const auto* load = elements<float>(call.inputs[0], X);
  if (!std::isfinite(*elements<float>(call.inputs[1], 1))) return;
  auto* bias = writable<float>(call.outputs[0], X);
  const auto speed = static_cast<float>(call.step.router_bias_update_speed);
  double sum = 0;
  for (std::int64_t x = 0; x < X; ++x) sum += static_cast<double>(load[x]);
  const double mean = sum / static_cast<double>(X);
  for (std::int64_t x = 0; x < X; ++x) {
    const double rows = static_cast<double>(load[x]);
    if (rows != mean) bias[x] += rows < mean ? speed : -speed;
  }
}

}  // namespace

void enter_sigmoid_router(KernelTable& table) {
  entry(table, Kernel::sigmoid_top_k) = sigmoid_top_k;
  entry(table, Kernel::sigmoid_top_k_backward) = sigmoid_top_k_backward;
  entry(table, Kernel::count_rows) = count_rows;
  entry(table, Kernel::update_router_bias) = update_router_bias;
}

}  // namespace xt
