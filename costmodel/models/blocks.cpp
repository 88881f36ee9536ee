#include "costmodel/models/blocks.h"

#include <fmt/format.h>

#include <utility>

namespace xt {

namespace {

template <typename Attention, typename Ffn>
void write_layer(Attention attention, Ffn ffn) {
  attention.forward();
  ffn.forward();
  ffn.backward();
  attention.backward();
}

template <typename Attention>
void write_layer_with(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                      LayerValues& values, bool is_sparse) {
  Attention attention(write, model, options, values);
  if (is_sparse) {
    write_layer(std::move(attention), RoutedHalf(write, model, options, values));
  } else {
    write_layer(std::move(attention), DenseHalf(write, model, options, values));
  }
}

}  // namespace

NormKernels norm_of(const Architecture& model) {
  if (!model.has_layer_norm) return {};
  return {Kernel::layer_norm, Kernel::layer_norm_backward, 2};
}

NormBehind::NormBehind(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                       std::string name)
    : write_(write), tokens_(options.residual_tokens()), width_(model.hidden_size) {
  if (!model.has_norms_behind) return;
  const GraphParameter weight =
      write.parameter({width_, 1, 1}, false, {{std::move(name), {width_, 1, 1}, 1, -1, 0}});
  weight_ = weight.value;
  gradient_ = weight.gradient;
}

ValueId NormBehind::input(ValueId branch) {
  x_ = weight_ ? write_.value({tokens_, width_, 1}) : branch;
  return x_;
}

void NormBehind::forward(std::string_view part, ValueId branch) {
  if (!weight_) return;
  rstd_ = write_.value({tokens_, 1, 1}, DType::fp32);
  write_.forward(Kernel::rms_norm, part, {tokens_, width_}, {x_, *weight_}, {branch, rstd_});
}

ValueId NormBehind::backward(std::string_view part, ValueId d_branch) {
  if (!weight_) return d_branch;
  const ValueId dx = write_.value({tokens_, width_, 1});
  write_.backward(Kernel::rms_norm_backward, part, {tokens_, width_},
                  {d_branch, x_, *weight_, rstd_}, {dx, gradient_});
  return dx;
}

GraphParameter bias_parameter(BlockWriter& write, std::string name, std::int64_t n, bool is_split) {
  std::vector<Piece> pieces = {{std::move(name), {n, 1, 1}, 1, -1, 0}};
  return is_split ? write.part_of_parameter({n, 1, 1}, std::move(pieces))
                  : write.parameter({n, 1, 1}, false, std::move(pieces));
}

void write_product(BlockWriter& write, std::string_view part,
                   const std::array<std::int64_t, 3>& shape, ValueId x, ValueId weight,
                   const std::optional<GraphParameter>& bias, ValueId y) {
  const auto& [m, n, k] = shape;
  if (bias) {
    write.forward(Kernel::matmul, part, {m, n, k}, {x, weight, bias->value}, {y});
  } else {
    write.forward(Kernel::matmul, part, {m, n, k}, {x, weight}, {y});
  }
}

void write_bias_backward(BlockWriter& write, std::string_view part, Extent rows, std::int64_t n,
                         ValueId dy, ValueId gradient) {
  write.backward(Kernel::sum_rows, part, {rows, n}, {dy}, {gradient});
}

const GraphParameter& norm_parameter(BlockWriter& write, const Architecture& model,
                                     const std::string& name) {
  const std::int64_t n = model.hidden_size;
  const auto piece = [&](std::string_view kind, std::int64_t offset) {
    return Piece{fmt::format("{}.{}", name, kind), {n, 1, 1}, 1, -1, offset};
  };
  if (!model.has_norm_bias) return write.parameter({n, 1, 1}, false, {piece("weight", 0)});
  return write.parameter({2 * n, 1, 1}, false, {piece("weight", 0), piece("bias", n)});
}

ResidualSum::ResidualSum(BlockWriter& write, const Architecture& model, const GraphOptions& options)
    : write_(write),
      options_(options),
      tokens_(options.residual_tokens()),
      width_(model.hidden_size),
      drops_(model.has_dropout) {}

ValueId ResidualSum::branch(ValueId sum) {
  return drops_ ? write_.value({tokens_, width_, 1})
                : residual_branch(write_, options_, tokens_, width_, sum);
}

void ResidualSum::forward(ValueId x, ValueId branch, ValueId sum) {
  if (!drops_) return write_residual(write_, tokens_ * width_, x, branch, sum);
  mask_ = write_.value({tokens_, width_, 1}, DType::uint8);
  write_.forward(Kernel::dropout_add, "residual", {tokens_ * width_}, {x, branch}, {sum, mask_});
}

ValueId ResidualSum::backward(ValueId d_sum) {
  if (!drops_) return d_sum;
  const ValueId d_branch = write_.value({tokens_, width_, 1});
  write_.backward(Kernel::dropout_backward, "residual", {tokens_ * width_}, {d_sum, mask_},
                  {d_branch});
  return d_branch;
}

ValueId residual_branch(BlockWriter& write, const GraphOptions& options, std::int64_t tokens,
                        std::int64_t width, ValueId sum) {
  return options.is_compiled ? sum : write.value({tokens, width, 1});
}

void write_residual(BlockWriter& write, std::int64_t elements, ValueId x, ValueId branch,
                    ValueId sum) {
  if (branch == sum) {
    write.forward(Kernel::add, "residual", {elements}, {x}, {sum});
  } else {
    write.forward(Kernel::sum, "residual", {elements}, {x, branch}, {sum});
  }
}

void write_layer(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                 LayerValues& values, bool is_sparse) {
  if (model.has_mla()) {
    write_layer_with<MlaHalf>(write, model, options, values, is_sparse);
  } else {
    write_layer_with<AttentionHalf>(write, model, options, values, is_sparse);
  }
}

Block decoder_block(OpGraph& graph, const Architecture& model, const GraphOptions& options,
                    bool is_sparse) {
  Block block;
  block.prefix = "model.layers.{}.";
  BlockWriter write(graph, block);
  const std::int64_t T = options.residual_tokens(), E = model.hidden_size;
  LayerValues values{};
  values.x = write.value({T, E, 1}, ValueRole::input);
  values.y = write.value({T, E, 1}, ValueRole::output);
  values.dy = write.value({T, E, 1}, ValueRole::output_gradient);
  write_layer(write, model, options, values, is_sparse);
  return block;
}

}  // namespace xt
