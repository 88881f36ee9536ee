// Rows of experts op by op: gathered twice on their way to experts and once on the way back,
// weighted and summed by kernels of their own, under autograd.
//
// Source: Hugging Face transformers 5, integrations/moe.py, grouped_mm_experts_forward; PyTorch,
// whose gradient of indexing adds to a tensor of zeros

#include "costmodel/models/blocks.h"

namespace xt {

// A pass over all rows that moves `bytes` for each of `width` numbers.
ValueId RoutedHalf::row_pass(Pass pass, std::string_view part, std::int64_t tensors, ValueId from,
                             std::int64_t row_width) {
  const ValueId to = write_.value({rows(), row_width, 1});
  const std::int64_t bytes = tensors * row_width * width(options_.dtype);
  write_.in(pass, Kernel::cast, part, {rows(), bytes}, {from}, {to});
  return to;
}

// Each token's rows beside each other first, then by expert.
ValueId RoutedHalf::gathered_by_expert(ValueId by_token) {
  return row_pass(Pass::forward, "dispatch", 2, by_token, E_);
}

void RoutedHalf::activate_unfused() {
  const std::int64_t n = T_ * top_k_ * F_;
  silu_ = write_.value({rows(), F_, 1});
  write_.forward(Kernel::silu, "experts.activation", {n}, {gate_up_}, {silu_});
  write_.forward(Kernel::multiply, "experts.activation", {n}, {silu_, gate_up_}, {act_});
}

// Weighted, and token by token again.
ValueId RoutedHalf::returned_to_tokens(ValueId out) {
  return row_pass(Pass::forward, "combine", 2, row_pass(Pass::forward, "combine", 2, out, E_), E_);
}

// The sum's gradient is gathered, that of the order added to zeros; then those of both factors.
void RoutedHalf::combine_unfused_backward() {
  constexpr std::int64_t zeros_and_sum = 4, product_and_sum = 4;
  d_weights_ = write_.value({T_, top_k_, 1}, DType::fp32);
  const ValueId by_token = row_pass(Pass::backward, "combine", 2, v_.dy, E_);
  const ValueId by_expert = row_pass(Pass::backward, "combine", zeros_and_sum, by_token, E_);
  d_out_ = row_pass(Pass::backward, "combine", 2, by_expert, E_);
  write_.backward(Kernel::cast, "combine", {rows(), product_and_sum * E_ * width(options_.dtype)},
                  {by_expert, returned_, weights_}, {d_weights_});
}

// Gradients of both factors, of the function, and of the halves of what products left.
void RoutedHalf::activation_unfused_backward(ValueId d_act) {
  const std::int64_t n = T_ * top_k_ * F_;
  const ValueId d_up = write_.value({rows(), F_, 1});
  const ValueId d_silu = write_.value({rows(), F_, 1});
  const ValueId d_gate = write_.value({rows(), F_, 1});
  write_.backward(Kernel::multiply, "experts.activation", {n}, {d_act, silu_}, {d_up});
  write_.backward(Kernel::multiply, "experts.activation", {n}, {d_act, gate_up_}, {d_silu});
  write_.backward(Kernel::silu_backward, "experts.activation", {n}, {d_silu, gate_up_}, {d_gate});
  write_.backward(Kernel::cast, "experts.activation", {rows(), 4 * F_ * width(options_.dtype)},
                  {d_gate, d_up}, {d_gate_up_});
}

ValueId RoutedHalf::gathered_by_expert_backward(ValueId d_rows) {
  constexpr std::int64_t zeros_and_sum = 4;
  return row_pass(Pass::backward, "dispatch", zeros_and_sum, d_rows, E_);
}

}  // namespace xt
