#include "costmodel/models/further_tokens.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "costmodel/models/blocks.h"

namespace xt {
namespace {

// A norm of [R,E] and what its backward pass needs.
class Norm {
 public:
  Norm(BlockWriter& write, const Architecture& model, const GraphOptions& options, std::string name)
      : write_(write),
        of_(norm_of(model)),
        rows_(options.residual_tokens()),
        width_(model.hidden_size),
        weight_(norm_parameter(write, model, name)),
        moments_(write.value({rows_, of_.moments, 1}, DType::fp32)),
        part_(std::move(name)) {}

  void forward(ValueId x, ValueId y) {
    write_.forward(of_.forward, part_, {rows_, width_}, {x, weight_.value}, {y, moments_});
  }
  void backward(ValueId dy, ValueId x, ValueId dx) {
    write_.backward(of_.backward, part_, {rows_, width_}, {dy, x, weight_.value, moments_},
                    {dx, weight_.gradient});
  }

 private:
  BlockWriter& write_;
  NormKernels of_;
  std::int64_t rows_, width_;
  GraphParameter weight_;
  ValueId moments_;
  std::string part_;
};

// Of the hidden state and of the embedding, side by side, one of the layer's width.
class Joined {
 public:
  Joined(BlockWriter& write, const Architecture& model, const GraphOptions& options)
      : write_(write),
        rows_(options.residual_tokens()),
        width_(model.hidden_size),
        bytes_(2 * width(options.dtype)),
        hidden_(write, model, options, "hnorm"),
        embedding_(write, model, options, "enorm"),
        weight_(write.parameter({width_, 2 * width_, 1}, false,
                                {{"eh_proj.weight", {width_, 2 * width_, 1}, 2, -1, 0}})) {}

  // The layer's input.
  ValueId forward() {
    h_ = write_.value({rows_, width_, 1}, ValueRole::input);
    e_ = write_.value({rows_, width_, 1}, ValueRole::next_embedding);
    const ValueId normed_h = tensor(1), normed_e = tensor(1), x = tensor(1);
    joined_ = tensor(2);
    embedding_.forward(e_, normed_e);
    hidden_.forward(h_, normed_h);
    write_.forward(Kernel::cast, "eh_proj", {rows_, 2 * width_ * bytes_}, {normed_e, normed_h},
                   {joined_});
    write_.forward(Kernel::matmul, "eh_proj", {rows_, width_, 2 * width_}, {joined_, weight_.value},
                   {x});
    return x;
  }

  // Out of the gradient of the layer's input, whose halves norms read where they lie.
  void backward(ValueId dx) {
    const ValueId d_joined = tensor(2);
    write_.backward(Kernel::matmul_input_backward, "eh_proj", {rows_, width_, 2 * width_},
                    {dx, weight_.value}, {d_joined});
    write_.backward(Kernel::matmul_weight_backward, "eh_proj", {rows_, width_, 2 * width_},
                    {dx, joined_}, {weight_.gradient});
    hidden_.backward(d_joined, h_, write_.value({rows_, width_, 1}, ValueRole::input_gradient));
    embedding_.backward(d_joined, e_,
                        write_.value({rows_, width_, 1}, ValueRole::next_embedding_gradient));
  }

 private:
  ValueId tensor(std::int64_t widths) { return write_.value({rows_, widths * width_, 1}); }

  BlockWriter& write_;
  std::int64_t rows_, width_, bytes_;
  Norm hidden_, embedding_;
  GraphParameter weight_;
  ValueId h_{}, e_{}, joined_{};
};

// The gradient that a layer left for the one before it, which is none of the block's.
ValueId as_activation(Block& block, ValueRole role) {
  const auto found = std::ranges::find(block.values, role, &GraphValue::role);
  XT_CHECK(found != block.values.end());
  found->role = ValueRole::activation;
  return static_cast<ValueId>(found - block.values.begin());
}

}  // namespace

Block further_token_block(OpGraph& graph, const Architecture& model, const GraphOptions& options) {
  Block block;
  block.prefix = "model.layers.{}.";
  BlockWriter write(graph, block);
  const std::int64_t R = options.residual_tokens(), E = model.hidden_size;
  const auto value = [&](ValueRole role) { return write.value({R, E, 1}, role); };
  const ValueId output = value(ValueRole::output), d_output = value(ValueRole::output_gradient);
  LayerValues values{};
  values.y = value(ValueRole::activation);
  values.dy = value(ValueRole::activation);
  Joined joined(write, model, options);
  Norm behind(write, model, options, "shared_head.norm");
  values.x = joined.forward();
  behind.backward(d_output, values.y, values.dy);
  write_layer(write, model, options, values, model.is_sparse(model.num_hidden_layers - 1));
  behind.forward(values.y, output);
  joined.backward(as_activation(block, ValueRole::input_gradient));
  return block;
}

}  // namespace xt
