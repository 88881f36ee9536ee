// Source: Shazeer 2020, "GLU Variants Improve Transformer", eq. 5

#include "costmodel/models/blocks.h"

namespace xt {

DenseHalf::DenseHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                     LayerValues& values)
    : write_(write),
      ranks_(write, options, model.hidden_size),
      T_(options.tokens),
      R_(options.residual_tokens()),
      E_(model.hidden_size),
      F_(ranks_.part_of(model.intermediate_size)),
      options_(options),
      is_gated_(model.has_gated_ffn),
      has_biases_(model.has_qkv_bias && model.has_bias_everywhere),
      norm_behind_(write, model, options, "post_feedforward_layernorm.weight"),
      residual_(write, model, options),
      v_(values) {
  if (is_gated_ && options.fuses_gate_up) {
    first_.push_back(linear("gate_up_proj", 2 * F_, E_,
                            {{"mlp.gate_proj.weight", {F_, E_, 1}, 2, -1, 0},
                             {"mlp.up_proj.weight", {F_, E_, 1}, 2, -1, F_ * E_}}));
  } else {
    if (is_gated_) first_.push_back(linear("gate_proj", F_, E_));
    first_.push_back(linear("up_proj", F_, E_));
  }
  down_ = linear("down_proj", E_, F_);
}

DenseHalf::Linear DenseHalf::linear(std::string name, std::int64_t rows, std::int64_t columns,
                                    std::vector<Piece> pieces) {
  if (pieces.empty()) pieces = {{"mlp." + name + ".weight", {rows, columns, 1}, 2, -1, 0}};
  const GraphParameter weight = write_.part_of_parameter({rows, columns, 1}, std::move(pieces));
  std::optional<GraphParameter> bias;
  if (has_biases_)
    bias = bias_parameter(write_, "mlp." + name + ".bias", rows, name != "down_proj");
  return {weight, rows, columns, std::move(name), bias};
}

void DenseHalf::activate() {
  act_ = write_.value({T_, F_, 1});
  const ValueId x = first_.front().y;
  if (!is_gated_) {
    write_.forward(Kernel::gelu, "activation", {T_, F_}, {x}, {act_});
  } else if (!is_split() && !options_.fuses_swiglu) {
    silu_ = write_.value({T_, F_, 1});
    write_.forward(Kernel::silu, "activation", {T_ * F_}, {x}, {silu_});
    write_.forward(Kernel::multiply, "activation", {T_ * F_}, {silu_, x}, {act_});
  } else if (!is_split()) {
    write_.forward(Kernel::swiglu, "activation", {T_, F_}, {x}, {act_});
  } else if (options_.is_compiled && options_.fuses_swiglu) {
    write_.forward(Kernel::silu_multiply, "activation", {T_, F_}, {x, first_.back().y}, {act_});
  } else {
    silu_ = write_.value({T_, F_, 1});
    write_.forward(Kernel::silu, "activation", {T_ * F_}, {x}, {silu_});
    write_.forward(Kernel::multiply, "activation", {T_ * F_}, {silu_, first_.back().y}, {act_});
  }
}

// Gradients of the halves of one product are tensors of their own, which are copied together.
void DenseHalf::halves_backward(ValueId d_act) {
  const Extent n = T_ * F_;
  const ValueId x = first_.front().y;
  const ValueId d_up = write_.value({T_, F_, 1}), d_gate = write_.value({T_, F_, 1});
  const ValueId d_silu = write_.value({T_, F_, 1});
  write_.backward(Kernel::multiply, "activation", {n}, {d_act, silu_}, {d_up});
  write_.backward(Kernel::multiply, "activation", {n}, {d_act, x}, {d_silu});
  write_.backward(Kernel::silu_backward, "activation", {n}, {d_silu, x}, {d_gate});
  write_.backward(Kernel::cast, "activation", {2 * T_ * F_, 2 * width(options_.dtype)},
                  {d_gate, d_up}, {first_.front().dy});
}

void DenseHalf::activate_backward(ValueId d_act) {
  for (Linear& of : first_) of.dy = write_.value({T_, of.rows, 1});
  const ValueId x = first_.front().y, dx = first_.front().dy;
  if (!is_gated_) {
    write_.backward(Kernel::gelu_backward, "activation", {T_, F_}, {d_act, x}, {dx});
  } else if (!is_split() && !options_.fuses_swiglu) {
    halves_backward(d_act);
  } else if (!is_split()) {
    write_.backward(Kernel::swiglu_backward, "activation", {T_, F_}, {d_act, x}, {dx});
  } else if (options_.is_compiled && options_.fuses_swiglu) {
    write_.backward(Kernel::silu_multiply_backward, "activation", {T_, F_},
                    {d_act, x, first_.back().y}, {dx, first_.back().dy});
  } else {
    const ValueId d_silu = write_.value({T_, F_, 1});
    const Extent n = T_ * F_;
    write_.backward(Kernel::multiply, "activation", {n}, {d_act, silu_}, {first_.back().dy});
    write_.backward(Kernel::multiply, "activation", {n}, {d_act, first_.back().y}, {d_silu});
    write_.backward(Kernel::silu_backward, "activation", {n}, {d_silu, x}, {dx});
  }
}

void DenseHalf::forward() {
  seen_ = ranks_.whole(Pass::forward, first_.front().part, v_.normed);
  for (Linear& of : first_) {
    of.y = write_.value({T_, of.rows, 1});
    write_product(write_, of.part, {T_, of.rows, E_}, seen_, of.weight.value, of.bias, of.y);
  }
  activate();
  const ValueId branch = residual_.branch(v_.y);
  const ValueId sum = norm_behind_.input(branch);
  const ValueId partial = ranks_.partial(sum);
  write_product(write_, down_.part, {T_, E_, F_}, act_, down_.weight.value, down_.bias, partial);
  ranks_.add_up(Pass::forward, down_.part, partial, sum);
  norm_behind_.forward("ffn_norm", branch);
  residual_.forward(v_.attended, branch, v_.y);
}

void DenseHalf::bias_backward(const Linear& of, ValueId dy) {
  if (of.bias) write_bias_backward(write_, of.part, T_, of.rows, dy, of.bias->gradient);
}

// As in attention, exchanges run behind products.
void DenseHalf::first_backward() {
  const ValueId x = ranks_.whole_again(first_.front().part, v_.normed, seen_);
  const ValueId partial = ranks_.partial(v_.dnormed);
  const auto weight_backward = [&](const Linear& of) {
    write_.backward(Kernel::matmul_weight_backward, of.part, {T_, of.rows, E_}, {of.dy, x},
                    {of.weight.gradient});
    bias_backward(of, of.dy);
  };
  for (const Linear& of : first_) {
    const bool is_first = &of == &first_.front();
    write_.backward(is_first ? Kernel::matmul_input_backward : Kernel::matmul_input_backward_add,
                    of.part, {T_, of.rows, E_}, {of.dy, of.weight.value}, {partial});
    if (!ranks_.overlaps()) weight_backward(of);
  }
  ranks_.add_up(Pass::backward, first_.front().part, partial, v_.dnormed);
  if (!ranks_.overlaps()) return;
  for (const Linear& of : first_) weight_backward(of);
}

void DenseHalf::backward() {
  const ValueId d_act = write_.value({T_, F_, 1});
  v_.dnormed = write_.value({R_, E_, 1});
  const ValueId d_sum = norm_behind_.backward("ffn_norm", residual_.backward(v_.dy));
  const ValueId dy = ranks_.whole(Pass::backward, down_.part, d_sum);
  write_.backward(Kernel::matmul_input_backward, down_.part, {T_, E_, F_}, {dy, down_.weight.value},
                  {d_act});
  write_.backward(Kernel::matmul_weight_backward, down_.part, {T_, E_, F_}, {dy, act_},
                  {down_.weight.gradient});
  bias_backward(down_, dy);
  activate_backward(d_act);
  first_backward();
}

}  // namespace xt
