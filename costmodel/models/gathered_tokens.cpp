// Routed experts to which all tokens of the ranks that share them come, by an all-gather, and whose
// output goes back as a sum, by a reduce-scatter. A token has equally many experts on every rank,
// so how many rows a rank has is known beforehand and no host waits for counts.
//
// Source: XTuner V1 (InternLM/xtuner, b934f4620), module/dispatcher/agrs.py

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

OpPlace over_experts(DType dtype) { return {Lane::expert, Group::expert, dtype}; }

}  // namespace

// The tokens of all ranks, and for each the experts that it has here, with their weights.
void RoutedHalf::dispatch_gathered() {
  const std::int64_t n = gathered_tokens(), k = experts_here(), choices = T_ * top_k_;
  const ValueId tokens = write_.value({n, E_, 1});
  const ValueId indices = write_.value({n, k, 1}, DType::int64);
  received_weights_ = write_.value({n, k, 1}, DType::fp32, true);
  write_.forward(Kernel::all_gather, "dispatch", {n * E_}, {v_.normed}, {tokens},
                 over_experts(options_.dtype));
  write_.forward(Kernel::all_to_all, "dispatch", {choices, choices, 1}, {indices_}, {indices},
                 over_experts(DType::int64));
  write_.forward(Kernel::all_to_all, "dispatch", {choices, choices, 1}, {weights_},
                 {received_weights_}, over_experts(DType::fp32));
  write_.forward(Kernel::sort_rows, "dispatch", {n, X_ / ep_, k}, {indices}, {order_, counts_});
  received_counts_ = counts_;
  expert_input_ = write_.value({rows(), E_, 1});
  write_.forward(Kernel::permute, "dispatch", {n, E_, k}, {tokens, order_}, {expert_input_});
}

void RoutedHalf::combine_gathered() {
  const std::int64_t n = gathered_tokens();
  const ValueId summed = write_.value({n, E_, 1});
  write_.forward(Kernel::unpermute, "combine", {n, E_, experts_here()},
                 {returned_, order_, received_weights_}, {summed});
  write_.forward(Kernel::reduce_scatter, "combine", {n * E_}, {summed}, {v_.y},
                 over_experts(options_.dtype));
  shared_forward();
  finish_combine();
}

// Gradients of the weights stay where they arise: XTuner sends weights outside autograd, so that
// the router learns from its own losses alone, whose backward pass costs the same.
void RoutedHalf::combine_gathered_backward() {
  const std::int64_t n = gathered_tokens();
  const ValueId d_tokens = write_.value({n, E_, 1});
  write_.backward(Kernel::all_gather, "combine", {n * E_}, {v_.dy}, {d_tokens},
                  over_experts(options_.dtype));
  d_out_ = write_.value({rows(), E_, 1});
  d_weights_ = write_.value({T_, top_k_, 1}, DType::fp32);
  write_.backward(Kernel::unpermute_backward, "combine", {n, E_, experts_here()},
                  {d_tokens, returned_, order_, received_weights_}, {d_out_, d_weights_});
}

ValueId RoutedHalf::dispatch_gathered_backward(ValueId d_rows) {
  const std::int64_t n = gathered_tokens();
  const ValueId d_tokens = write_.value({n, E_, 1});
  const ValueId d_own = write_.value({T_, E_, 1});
  write_.backward(Kernel::unpermute, "dispatch", {n, E_, experts_here()}, {d_rows, order_},
                  {d_tokens});
  write_.backward(Kernel::reduce_scatter, "dispatch", {n * E_}, {d_tokens}, {d_own},
                  over_experts(options_.dtype));
  return d_own;
}

}  // namespace xt
