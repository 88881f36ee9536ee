// Products of experts with their biases.

#include "costmodel/models/blocks.h"
#include "costmodel/models/expert_pieces.h"

namespace xt {

// Biases of the router and of each expert.
//
// Source: Hugging Face transformers, modeling_gpt_oss.py
void RoutedHalf::add_biases(std::int64_t local) {
  router_bias_ = bias_parameter(write_, "mlp.router.bias", X_, false);
  const auto of_experts = [&](const char* name, std::int64_t n) {
    return write_.parameter({local, n, 1}, true, stacked_pieces("mlp", local, name, n, 1));
  };
  gate_up_bias_ = of_experts("gate_up_proj_bias", 2 * F_);
  down_bias_ = of_experts("down_proj_bias", E_);
}

// y = x times each expert's weight, [rows,n] over k.
void RoutedHalf::product(std::string_view part, std::int64_t n, std::int64_t k, ValueId x,
                         ValueId weight, const std::optional<GraphParameter>& bias, ValueId y) {
  const std::initializer_list<Extent> extents = {rows(), n, k, X_ / ep_, transposed_, apart_};
  if (bias) {
    write_.forward(Kernel::grouped_matmul, part, extents,
                   {x, weight, received_counts_, bias->value}, {y});
  } else {
    write_.forward(Kernel::grouped_matmul, part, extents, {x, weight, received_counts_}, {y});
  }
}

void RoutedHalf::product_bias_backward(std::string_view part, std::int64_t n, ValueId dy,
                                       const GraphParameter& bias) {
  write_.backward(Kernel::sum_expert_rows, part, {rows(), n, X_ / ep_}, {dy, received_counts_},
                  {bias.gradient});
}

void RoutedHalf::weight_gradients() {
  write_.backward(Kernel::grouped_matmul_weight_backward, "experts.down",
                  {rows(), E_, F_, X_ / ep_, transposed_, apart_}, {d_out_, act_, received_counts_},
                  {w2_gradient_});
  write_.backward(Kernel::grouped_matmul_weight_backward, "experts.gate_up",
                  {rows(), 2 * F_, E_, X_ / ep_, transposed_, apart_},
                  {d_gate_up_, expert_input_, received_counts_}, {w13_gradient_});
  if (!down_bias_) return;
  if (!adds_bias_apart()) product_bias_backward("experts.down", E_, d_out_, *down_bias_);
  product_bias_backward("experts.gate_up", 2 * F_, d_gate_up_, *gate_up_bias_);
}

}  // namespace xt
