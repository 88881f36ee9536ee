// The auxiliary loss of a softmax router that loads experts unequally, over all layers of a pack:
//
//   α · X · Σ_x F_x · P_x,   F_x = rows of expert x over tokens and layers, P_x the mean
//   probability
//
// Tokens are those of samples; padding, which comes behind them, counts in neither.
//
// Source: Fedus, Zoph, Shazeer 2021, "Switch Transformers", arXiv 2101.03961, eq. 4; Hugging Face
// transformers, modeling_mixtral.py, load_balancing_loss_func, for the mean over layers

#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

// What a probability of expert x counts: α · X · F_x over tokens and layers.
struct Weights {
  const float* load;
  float factor;

  Weights(const KernelCall& call, std::int64_t counted, std::int64_t X)
      : load(elements<float>(call.inputs[1], X)) {
    const double rows = static_cast<double>(counted * call.extent(3));
    factor = static_cast<float>(call.step.balance_loss * static_cast<double>(X) / rows / rows);
  }
  float operator()(std::int64_t x) const { return factor * load[x]; }
};

// Adds p · (G − Σ p·G) to the gradient of a row's logits, and returns Σ p·G.
template <typename T>
XT_PER_INSTRUCTION_SET float balance_row(const T* logits, const Weights& weights, std::int64_t X,
                                         T* dlogits) {
  const float top = largest(logits, X);
  float sum = 0, along = 0;
  for (std::int64_t x = 0; x < X; ++x) {
    const float e = exponential(wide(logits[x]) - top);
    sum += e;
    along += e * weights(x);
  }
  along /= sum;
  for (std::int64_t x = 0; x < X; ++x) {
    const float p = exponential(wide(logits[x]) - top) / sum;
    put(dlogits[x], wide(dlogits[x]) + p * (weights(x) - along));
  }
  return along;
}

void balance_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), X = call.extent(1), counted = call.extent(4);
  if (counted == 0) return;
  const Weights weights(call, counted, X);
  const at::Tensor rows = scratch(T, 1);
  auto* loss_of_row = rows.mutable_data_ptr<float>();
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* logits = elements<Element>(call.inputs[0], T * X);
    auto* dlogits = writable<Element>(call.outputs[0], T * X);
    for_rows(counted, 8 * X, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        loss_of_row[t] = balance_row(logits + t * X, weights, X, dlogits + t * X);
    });
  });
  double sum = 0;
  for (std::int64_t t = 0; t < counted; ++t) sum += static_cast<double>(loss_of_row[t]);
  *writable<float>(call.outputs[1], 1) += static_cast<float>(sum);
}

}  // namespace

void enter_balance_loss(KernelTable& table) {
  entry(table, Kernel::balance_backward) = balance_backward;
}

}  // namespace xt
