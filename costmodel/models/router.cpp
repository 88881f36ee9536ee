// Which experts a token goes to: the choice, and what of the router learns by it.
//
// Source: Hugging Face transformers, modeling_qwen3_moe.py, and modeling_deepseek_v3.py for scores
// by sigmoid; Wang et al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664, for the
// bias

#include "costmodel/models/blocks.h"

namespace xt {

// Chosen weights are scattered into a matrix of all experts and marks of what was chosen into
// another, which is made in three types and counted; scores for the auxiliary loss are made and
// chosen from once more, with a map of their own, whatever that loss weighs.
//
//   60 bytes a logit: 28 of weights and their map, 32 of scores and theirs; 7 + 1 + 7 kernels,
//   the one being the choice, which is not one with its softmax
//
// Assumes: logits of 16 bits; neither moe_router_fusion nor groups of experts; what is counted for
//          the dispatcher is in its wait for counts
// Source:  Megatron-LM, core v0.12, transformer/moe/moe_utils.py, topk_softmax_with_capacity, and
//          transformer/moe/router.py, compute_routing_scores_for_aux_loss, which is called for
//          moe_router_load_balancing_type aux_loss, the default
void RoutedHalf::map_choice() {
  constexpr std::int64_t bytes = 60, kernels = 15;
  const ValueId map = write_.value({T_, X_, 1});
  write_.forward(Kernel::cast, "router", {T_ * X_, bytes, kernels}, {logits_}, {map});
}

void RoutedHalf::choose() {
  if (options_.routes_op_by_op) map_choice();
  const Kernel kernel = has_sigmoid_ ? Kernel::sigmoid_top_k : Kernel::softmax_top_k;
  if (choice_bias_) {
    write_.forward(kernel, "router", {T_, X_, top_k_}, {logits_, *choice_bias_},
                   {weights_, indices_});
  } else {
    write_.forward(kernel, "router", {T_, X_, top_k_}, {logits_}, {weights_, indices_});
  }
}

// Padding is routed as any token but teaches a router nothing.
Extent RoutedHalf::sample_tokens() const {
  return Extent::of(static_cast<SymbolId>(SymbolKind::sample_tokens));
}

void RoutedHalf::count_rows(Pass pass, ValueId load) {
  write_.in(pass, Kernel::count_rows, "router", {T_, X_, top_k_, sample_tokens()}, {indices_},
            {load});
}

void RoutedHalf::router_backward() {
  const ValueId d_logits = write_.value({T_, X_, 1});
  v_.dnormed = write_.value({T_, E_, 1});
  write_.backward(has_sigmoid_ ? Kernel::sigmoid_top_k_backward : Kernel::softmax_top_k_backward,
                  "router", {T_, X_, top_k_}, {d_weights_, logits_, indices_}, {d_logits});
  if (pack_load_)
    write_.backward(Kernel::balance_backward, "router",
                    {T_, X_, top_k_, sparse_layers_, sample_tokens()}, {logits_, *pack_load_},
                    {d_logits, *balance_loss_});
  write_.backward(Kernel::matmul_input_backward, "router", {T_, X_, E_}, {d_logits, router_},
                  {v_.dnormed});
  write_.backward(Kernel::matmul_weight_backward, "router", {T_, X_, E_}, {d_logits, v_.normed},
                  {router_gradient_});
  if (router_bias_) write_bias_backward(write_, "router", T_, X_, d_logits, router_bias_->gradient);
  if (load_) count_rows(Pass::backward, *load_);
  shared_backward();
}

}  // namespace xt
