#include "costmodel/models/blocks.h"

namespace xt {

Block decoder_block(OpGraph& graph, const Architecture& model, const GraphOptions& options,
                    bool is_sparse) {
  Block block;
  block.prefix = "model.layers.{}.";
  BlockWriter write(graph, block);
  const std::int64_t T = options.tokens, E = model.hidden_size;
  LayerValues values{};
  values.x = write.value({T, E, 1}, ValueRole::input);
  values.y = write.value({T, E, 1}, ValueRole::output);
  values.dy = write.value({T, E, 1}, ValueRole::output_gradient);
  AttentionHalf attention(write, model, options, values);
  if (is_sparse) {
    RoutedHalf ffn(write, model, options, values);
    attention.forward();
    ffn.forward();
    ffn.backward();
    attention.backward();
  } else {
    DenseHalf ffn(write, model, T, values);
    attention.forward();
    ffn.forward();
    ffn.backward();
    attention.backward();
  }
  return block;
}

}  // namespace xt
