// Source: Hugging Face transformers, modeling_qwen3_moe.py; Lepikhin et al. 2020, "GShard", §3.2

#include <fmt/format.h>

#include <cmath>

#include "costmodel/models/blocks.h"
#include "costmodel/models/expert_pieces.h"

namespace xt {
namespace {

const OpPlace over_experts{Lane::expert, Group::expert, DType::fp32};

}  // namespace

RoutedHalf::RoutedHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                       LayerValues& values)
    : write_(write),
      ranks_(write, options, model.hidden_size),
      options_(options),
      T_(options.residual_tokens()),
      E_(model.hidden_size),
      F_(model.moe_intermediate_size),
      X_(model.num_experts),
      top_k_(model.num_experts_per_tok),
      ep_(options.expert_parallel),
      transposed_(model.has_stacked_experts ? 1 : 0),
      apart_(options.has_transformer_engine ? 1 : 0),
      has_sigmoid_(model.has_sigmoid_router),
      is_clamped_(model.has_clamped_swiglu),
      sparse_layers_(model.sparse_layers()),
      shared_(ranks_.part_of(model.n_shared_experts * model.moe_intermediate_size)),
      shared_tokens_(options.tokens),
      v_(values) {
  const std::int64_t local = X_ / ep_;
  const RoutedNames names = routed_names(model);
  const GraphParameter router = write.parameter(
      {X_, E_, 1}, false,
      {{fmt::format("{}.{}.weight", names.half, names.router), {X_, E_, 1}, 2, -1, 0}});
  router_ = router.value;
  router_gradient_ = router.gradient;
  const bool is_stacked = model.has_stacked_experts;
  const GraphParameter w13 =
      is_stacked
          ? write.parameter({local, E_, 2 * F_}, true,
                            stacked_pieces(names.half, local, names.gate, E_, 2 * F_))
          : write.parameter({local, 2 * F_, E_}, true,
                            expert_pieces(names.half, local, {names.gate, names.up}, F_, E_));
  w13_ = w13.value;
  w13_gradient_ = w13.gradient;
  const GraphParameter w2 =
      is_stacked ? write.parameter({local, F_, E_}, true,
                                   stacked_pieces(names.half, local, names.down, F_, E_))
                 : write.parameter({local, E_, F_}, true,
                                   expert_pieces(names.half, local, {names.down}, E_, F_));
  w2_ = w2.value;
  w2_gradient_ = w2.gradient;
  if (model.has_bias_everywhere) add_biases(local);
  if (options.has_balance_loss) {
    pack_load_ = write.value({X_, 1, 1}, ValueRole::pack_load);
    balance_loss_ = write.value({1, 1, 1}, ValueRole::balance_loss);
  }
  if (has_sigmoid_ && options.keeps_router_bias) {
    choice_bias_ = write.value({X_, 1, 1}, ValueRole::router_bias);
    load_ = write.value({X_, 1, 1}, ValueRole::expert_load);
  }
  if (shared_ == 0) return;
  const GraphParameter gate_up = write.part_of_parameter(
      {2 * shared_, E_, 1},
      {{"mlp.shared_experts.gate_proj.weight", {shared_, E_, 1}, 2, -1, 0},
       {"mlp.shared_experts.up_proj.weight", {shared_, E_, 1}, 2, -1, shared_ * E_}});
  shared_gate_up_weight_ = gate_up.value;
  shared_gate_up_gradient_ = gate_up.gradient;
  const GraphParameter down = write.part_of_parameter(
      {E_, shared_, 1}, {{"mlp.shared_experts.down_proj.weight", {E_, shared_, 1}, 2, -1, 0}});
  shared_down_weight_ = down.value;
  shared_down_gradient_ = down.gradient;
}

void RoutedHalf::shared_forward() {
  if (shared_ == 0) return;
  const std::int64_t n = shared_tokens_;
  shared_gate_up_ = write_.value({n, 2 * shared_, 1});
  shared_act_ = write_.value({n, shared_, 1});
  shared_out_ = write_.value({T_, E_, 1});
  shared_input_ = ranks_.whole(Pass::forward, "shared.gate_up", v_.normed);
  write_.forward(Kernel::matmul, "shared.gate_up", {n, 2 * shared_, E_},
                 {shared_input_, shared_gate_up_weight_}, {shared_gate_up_});
  write_.forward(Kernel::swiglu, "shared.activation", {n, shared_}, {shared_gate_up_},
                 {shared_act_});
  const ValueId partial = ranks_.partial(shared_out_);
  write_.forward(Kernel::matmul, "shared.down", {n, E_, shared_},
                 {shared_act_, shared_down_weight_}, {partial});
  ranks_.add_up(Pass::forward, "shared.down", partial, shared_out_);
}

// On entry v_.dnormed holds what came through the router.
void RoutedHalf::shared_backward() {
  if (shared_ == 0) return;
  const std::int64_t n = shared_tokens_;
  const ValueId d_act = write_.value({n, shared_, 1});
  const ValueId d_gate_up = write_.value({n, 2 * shared_, 1});
  const ValueId dy = ranks_.whole(Pass::backward, "shared.down", v_.dy);
  write_.backward(Kernel::matmul_input_backward, "shared.down", {n, E_, shared_},
                  {dy, shared_down_weight_}, {d_act});
  write_.backward(Kernel::matmul_weight_backward, "shared.down", {n, E_, shared_},
                  {dy, shared_act_}, {shared_down_gradient_});
  write_.backward(Kernel::swiglu_backward, "shared.activation", {n, shared_},
                  {d_act, shared_gate_up_}, {d_gate_up});
  const ValueId x = ranks_.whole_again("shared.gate_up", v_.normed, shared_input_);
  shared_input_backward(d_gate_up);
  write_.backward(Kernel::matmul_weight_backward, "shared.gate_up", {n, 2 * shared_, E_},
                  {d_gate_up, x}, {shared_gate_up_gradient_});
}

// Ranks that share products sum the gradient behind the product for the weight's.
void RoutedHalf::shared_input_backward(ValueId d_gate_up) {
  const std::int64_t n = shared_tokens_;
  if (ranks_.is_one()) {
    write_.backward(Kernel::matmul_input_backward_add, "shared.gate_up", {n, 2 * shared_, E_},
                    {d_gate_up, shared_gate_up_weight_}, {v_.dnormed});
    return;
  }
  const ValueId d_shared = write_.value({T_, E_, 1});
  const ValueId partial = ranks_.partial(d_shared);
  write_.backward(Kernel::matmul_input_backward, "shared.gate_up", {n, 2 * shared_, E_},
                  {d_gate_up, shared_gate_up_weight_}, {partial});
  ranks_.add_up(Pass::backward, "shared.gate_up", partial, d_shared);
  write_.backward(Kernel::add, "shared.gate_up", {T_ * E_}, {d_shared}, {v_.dnormed});
}

Extent RoutedHalf::rows() const {
  if (ep_ == 1 || gathers_tokens()) return T_ * top_k_;
  return Extent::of(static_cast<SymbolId>(SymbolKind::rows_received));
}

// Copies of a rank's tokens, one per rank that has any of a token's experts, itself included.
//
//   T · ep · (1 − (1 − 1/ep)^k)
//
// Assumes: each of the k experts lies on any of the ranks with the same chance
// Source:  derived; DeepEP (deepseek-ai/DeepEP), which sends a token to a rank once
std::int64_t RoutedHalf::copies() const {
  const double missed = std::pow(1 - 1 / static_cast<double>(ep_), static_cast<double>(top_k_));
  return std::llround(static_cast<double>(T_ * ep_) * (1 - missed));
}

// Products in fp8 need multiples of 16 rows an expert, which exchanges of copies leave.
//
// Source: Megatron-LM, core/transformer/moe/experts.py, TEGroupedMLP, skip_routed_expert_padding
bool RoutedHalf::pads_rows() const {
  return options_.has_fp8_products && options_.has_transformer_engine && !sends_copies();
}

// Rows of experts between others of zeros, or without these: what they add is left out.
ValueId RoutedHalf::copied_rows(Pass pass, std::string_view part, ValueId from) {
  if (!pads_rows()) return from;
  const ValueId copy = write_.value({rows(), E_, 1});
  write_.in(pass, Kernel::cast, part, {rows(), 2 * E_ * width(options_.dtype)}, {from}, {copy});
  return copy;
}

// Copies carry how many tokens they are of, and of how many experts each, as a node gets one too.
void RoutedHalf::exchange(Pass pass, std::string_view part, Extent sent, Extent received,
                          std::initializer_list<ValueId> inputs, ValueId output) {
  const std::int64_t tokens = sends_copies() ? T_ : 0;
  const std::int64_t experts_each = sends_copies() ? top_k_ : 0;
  write_.in(pass, Kernel::all_to_all, part, {sent, received, E_, tokens, experts_each}, inputs,
            {output}, Lane::expert);
}

// Where rows are weighed on their way through experts, weights go there too; copies carry theirs.
//
// Source: Megatron-LM, core v0.12, transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher
bool RoutedHalf::exchanges_weights() const {
  return options_.weighs_activations && ep_ > 1 && !sends_copies();
}

void RoutedHalf::dispatch() {
  if (gathers_tokens()) return dispatch_gathered();
  write_.forward(Kernel::sort_rows, "router", {T_, X_, top_k_}, {indices_}, {order_, counts_});
  if (pack_load_) count_rows(Pass::forward, *pack_load_);
  const std::int64_t sent = sends_copies() ? copies() : T_ * top_k_;
  ValueId permuted = v_.normed;
  if (!sends_copies()) {
    permuted = write_.value({sent, E_, 1});
    write_.forward(Kernel::permute, "dispatch", {T_, E_, top_k_}, {v_.normed, order_}, {permuted});
  }
  if (ep_ == 1) {
    received_counts_ = counts_;
    expert_input_ = is_unfused() ? gathered_by_expert(permuted) : permuted;
    return;
  }
  received_counts_ = write_.value({ep_, X_ / ep_, 1}, DType::int64, true);
  write_.forward(Kernel::exchange_counts, "dispatch", {X_}, {counts_}, {received_counts_},
                 Lane::expert);
  write_.forward(Kernel::bind_rows, "dispatch", {rows()}, {received_counts_}, {}, Lane::host);
  const Extent arriving = sends_copies() ? Extent(sent) : rows();
  const ValueId received = write_.value({arriving, E_, 1});
  expert_input_ = write_.value({rows(), E_, 1});
  exchange(Pass::forward, "dispatch", sent, arriving, {permuted, counts_, received_counts_},
           received);
  if (exchanges_weights()) {
    received_weights_ = write_.value({rows(), 1, 1}, DType::fp32);
    write_.forward(Kernel::all_to_all, "dispatch", {sent, rows(), 1},
                   {weights_, counts_, received_counts_}, {received_weights_}, over_experts);
  }
  write_.forward(Kernel::regroup, "dispatch", {rows(), E_, ep_, X_ / ep_},
                 {received, received_counts_}, {expert_input_});
}

void RoutedHalf::combine() {
  const ValueId out = write_.value({rows(), E_, 1});
  product("experts.down", E_, F_, act_, w2_, adds_bias_apart() ? std::nullopt : down_bias_, out);
  returned_ = copied_rows(Pass::forward, "experts.down", out);
  if (adds_bias_apart()) returned_ = down_bias().forward(returned_);
  if (sends_copies()) return combine_copies();
  if (gathers_tokens()) return combine_gathered();
  if (ep_ > 1) {
    const std::int64_t sent = T_ * top_k_;
    const ValueId ungrouped = write_.value({rows(), E_, 1});
    write_.forward(Kernel::ungroup, "combine", {rows(), E_, ep_, X_ / ep_},
                   {returned_, received_counts_}, {ungrouped});
    returned_ = write_.value({sent, E_, 1});
    exchange(Pass::forward, "combine", rows(), sent, {ungrouped, received_counts_, counts_},
             returned_);
  }
  shared_forward();
  const ValueId rows_of_tokens = is_unfused() ? returned_to_tokens(returned_) : returned_;
  write_.forward(Kernel::unpermute, "combine", {T_, E_, top_k_}, {rows_of_tokens, order_, weights_},
                 {v_.y});
  finish_combine();
}

// What comes beside the routed experts' sum.
void RoutedHalf::finish_combine() {
  if (shared_ > 0) write_.forward(Kernel::add, "combine", {T_ * E_}, {shared_out_}, {v_.y});
  write_.forward(Kernel::add, "residual", {T_ * E_}, {v_.attended}, {v_.y});
}

// What the experts of a rank made of a token is summed there, and all ranks' sums on the way back.
void RoutedHalf::combine_copies() {
  const ValueId summed = write_.value({copies(), E_, 1});
  write_.forward(Kernel::ungroup, "combine", {rows(), E_, ep_, X_ / ep_},
                 {returned_, received_counts_, weights_}, {summed});
  exchange(Pass::forward, "combine", copies(), copies(), {summed, received_counts_, counts_}, v_.y);
  shared_forward();
  finish_combine();
}

void RoutedHalf::forward() {
  logits_ = write_.value({T_, X_, 1});
  weights_ = write_.value({T_, top_k_, 1}, DType::fp32, true);
  indices_ = write_.value({T_, top_k_, 1}, DType::int64, true);
  order_ = write_.value({T_ * top_k_, 1, 1}, DType::int64, true);
  counts_ = write_.value({1, gathers_tokens() ? X_ / ep_ : X_, 1}, DType::int64, true);
  write_product(write_, "router", {T_, X_, E_}, v_.normed, router_, router_bias_, logits_);
  choose();
  dispatch();
  expert_input_ = copied_rows(Pass::forward, "experts.gate_up", expert_input_);
  gate_up_ = write_.value({rows(), 2 * F_, 1});
  act_ = write_.value({rows(), F_, 1});
  product("experts.gate_up", 2 * F_, E_, expert_input_, w13_, gate_up_bias_, gate_up_);
  const Kernel activation = is_clamped_ ? Kernel::swiglu_clamped : Kernel::swiglu;
  const ValueId row_weights = exchanges_weights() ? received_weights_ : weights_;
  clamped_ = gate_up_;
  if (is_unfused()) {
    activate_unfused();
  } else if (clamps_apart()) {
    const auto [halves, offset] = clamp().forward(gate_up_);
    clamped_ = halves;
    write_.forward(activation, "experts.activation", {rows(), F_}, {halves, row_weights, offset},
                   {act_});
  } else if (options_.weighs_activations) {
    write_.forward(activation, "experts.activation", {rows(), F_}, {clamped_, row_weights}, {act_});
  } else {
    write_.forward(activation, "experts.activation", {rows(), F_}, {clamped_}, {act_});
  }
  combine();
}

// From the gradient of the experts' output to that of their input, weight gradients left aside.
void RoutedHalf::experts_backward() {
  if (adds_bias_apart()) d_out_ = down_bias().backward(d_out_, down_bias_->gradient);
  d_out_ = copied_rows(Pass::backward, "experts.down", d_out_);
  const ValueId d_act = write_.value({rows(), F_, 1});
  d_gate_up_ = write_.value({rows(), 2 * F_, 1});
  write_.backward(Kernel::grouped_matmul_input_backward, "experts.down",
                  {rows(), E_, F_, X_ / ep_, transposed_, apart_}, {d_out_, w2_, received_counts_},
                  {d_act});
  if (is_unfused()) return activation_unfused_backward(d_act);
  const Kernel kernel = is_clamped_ ? Kernel::swiglu_clamped_backward : Kernel::swiglu_backward;
  if (exchanges_weights()) {
    d_received_weights_ = write_.value({rows(), 1, 1}, DType::fp32);
    write_.backward(kernel, "experts.activation", {rows(), F_},
                    {d_act, clamped_, received_weights_}, {d_gate_up_, d_received_weights_});
  } else if (options_.weighs_activations) {
    write_.backward(kernel, "experts.activation", {rows(), F_}, {d_act, clamped_, weights_},
                    {d_gate_up_, d_weights_});
  } else {
    write_.backward(kernel, "experts.activation", {rows(), F_}, {d_act, clamped_}, {d_gate_up_});
  }
  if (clamps_apart()) d_gate_up_ = clamp().backward(d_gate_up_, gate_up_);
}

// What a token's rows get of its gradient, and their weights where they weighed these rows.
ValueId RoutedHalf::unpermute_backward() {
  const ValueId d_returned = write_.value({T_ * top_k_, E_, 1});
  if (options_.weighs_activations) {
    write_.backward(Kernel::permute, "combine", {T_, E_, top_k_}, {v_.dy, order_}, {d_returned});
  } else {
    write_.backward(Kernel::unpermute_backward, "combine", {T_, E_, top_k_},
                    {v_.dy, returned_, order_, weights_}, {d_returned, d_weights_});
  }
  return d_returned;
}

// From the gradient of the layer's output to that of the experts' output.
void RoutedHalf::combine_backward() {
  if (gathers_tokens()) return combine_gathered_backward();
  if (is_unfused()) return combine_unfused_backward();
  const std::int64_t sent = sends_copies() ? copies() : T_ * top_k_;
  d_weights_ = write_.value({T_, top_k_, 1}, DType::fp32);
  const ValueId d_returned = sends_copies() ? v_.dy : unpermute_backward();
  d_out_ = d_returned;
  if (ep_ == 1) return;
  const Extent arriving = sends_copies() ? Extent(sent) : rows();
  const ValueId received = write_.value({arriving, E_, 1});
  d_out_ = write_.value({rows(), E_, 1});
  exchange(Pass::backward, "combine", sent, arriving, {d_returned, counts_, received_counts_},
           received);
  if (options_.hides_exchange) router_backward();
  if (sends_copies() && !options_.weighs_activations) {
    write_.backward(Kernel::regroup, "combine", {rows(), E_, ep_, X_ / ep_},
                    {received, received_counts_, returned_, weights_}, {d_out_, d_weights_});
  } else {
    write_.backward(Kernel::regroup, "combine", {rows(), E_, ep_, X_ / ep_},
                    {received, received_counts_}, {d_out_});
  }
}

// From the gradient of the experts' input to what comes back to this rank's tokens.
ValueId RoutedHalf::dispatch_backward(ValueId d_rows) {
  if (ep_ == 1) return is_unfused() ? gathered_by_expert_backward(d_rows) : d_rows;
  if (gathers_tokens()) return dispatch_gathered_backward(d_rows);
  const std::int64_t sent = sends_copies() ? copies() : T_ * top_k_;
  const Extent leaving = sends_copies() ? Extent(sent) : rows();
  const ValueId ungrouped = write_.value({leaving, E_, 1});
  const ValueId d_sent = write_.value({sends_copies() ? T_ : sent, E_, 1});
  if (exchanges_weights())
    write_.backward(Kernel::all_to_all, "dispatch", {rows(), sent, 1},
                    {d_received_weights_, received_counts_, counts_}, {d_weights_}, over_experts);
  write_.backward(Kernel::ungroup, "dispatch", {rows(), E_, ep_, X_ / ep_},
                  {d_rows, received_counts_}, {ungrouped});
  exchange(Pass::backward, "dispatch", leaving, sent, {ungrouped, received_counts_, counts_},
           d_sent);
  return d_sent;
}

void RoutedHalf::backward() {
  combine_backward();
  experts_backward();
  if (!options_.hides_exchange) weight_gradients();
  const ValueId d_rows = write_.value({rows(), E_, 1});
  write_.backward(Kernel::grouped_matmul_input_backward, "experts.gate_up",
                  {rows(), 2 * F_, E_, X_ / ep_, transposed_, apart_},
                  {d_gate_up_, w13_, received_counts_}, {d_rows});
  const ValueId d_sent = dispatch_backward(copied_rows(Pass::backward, "experts.gate_up", d_rows));
  if (options_.hides_exchange) weight_gradients();
  if (!options_.hides_exchange || ep_ == 1 || gathers_tokens()) router_backward();
  if (sends_copies() || gathers_tokens()) {
    write_.backward(Kernel::add, "dispatch", {T_ * E_}, {d_sent}, {v_.dnormed});
  } else {
    write_.backward(Kernel::permute_backward_add, "dispatch", {T_, E_, top_k_}, {d_sent, order_},
                    {v_.dnormed});
  }
}

}  // namespace xt
