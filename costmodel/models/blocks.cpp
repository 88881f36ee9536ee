#include "costmodel/models/blocks.h"

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
void write_layer(BlockWriter& write, const Architecture& model, const GraphOptions& options,
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
  if (model.has_mla()) {
    write_layer<MlaHalf>(write, model, options, values, is_sparse);
  } else {
    write_layer<AttentionHalf>(write, model, options, values, is_sparse);
  }
  return block;
}

}  // namespace xt
