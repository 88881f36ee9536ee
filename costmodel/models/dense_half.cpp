// Source: Shazeer 2020, "GLU Variants Improve Transformer", eq. 5

#include "costmodel/models/blocks.h"

namespace xt {

DenseHalf::DenseHalf(BlockWriter& write, const Architecture& model, std::int64_t tokens,
                     LayerValues& values)
    : write_(write), T_(tokens), E_(model.hidden_size), F_(model.intermediate_size), v_(values) {
  const GraphParameter gate_up =
      write.parameter({2 * F_, E_, 1}, false,
                      {{"mlp.gate_proj.weight", {F_, E_, 1}, 2, -1, 0},
                       {"mlp.up_proj.weight", {F_, E_, 1}, 2, -1, F_ * E_}});
  gate_up_weight_ = gate_up.value;
  gate_up_gradient_ = gate_up.gradient;
  const GraphParameter down =
      write.parameter({E_, F_, 1}, false, {{"mlp.down_proj.weight", {E_, F_, 1}, 2, -1, 0}});
  down_weight_ = down.value;
  down_gradient_ = down.gradient;
}

void DenseHalf::forward() {
  gate_up_ = write_.value({T_, 2 * F_, 1});
  act_ = write_.value({T_, F_, 1});
  write_.forward(Kernel::matmul, "gate_up_proj", {T_, 2 * F_, E_}, {v_.normed, gate_up_weight_},
                 {gate_up_});
  write_.forward(Kernel::swiglu, "activation", {T_, F_}, {gate_up_}, {act_});
  write_.forward(Kernel::matmul, "down_proj", {T_, E_, F_}, {act_, down_weight_}, {v_.y});
  write_.forward(Kernel::add, "residual", {T_ * E_}, {v_.attended}, {v_.y});
}

void DenseHalf::backward() {
  const ValueId d_act = write_.value({T_, F_, 1});
  const ValueId d_gate_up = write_.value({T_, 2 * F_, 1});
  v_.dnormed = write_.value({T_, E_, 1});
  write_.backward(Kernel::matmul_input_backward, "down_proj", {T_, E_, F_}, {v_.dy, down_weight_},
                  {d_act});
  write_.backward(Kernel::matmul_weight_backward, "down_proj", {T_, E_, F_}, {v_.dy, act_},
                  {down_gradient_});
  write_.backward(Kernel::swiglu_backward, "activation", {T_, F_}, {d_act, gate_up_}, {d_gate_up});
  write_.backward(Kernel::matmul_input_backward, "gate_up_proj", {T_, 2 * F_, E_},
                  {d_gate_up, gate_up_weight_}, {v_.dnormed});
  write_.backward(Kernel::matmul_weight_backward, "gate_up_proj", {T_, 2 * F_, E_},
                  {d_gate_up, v_.normed}, {gate_up_gradient_});
}

}  // namespace xt
