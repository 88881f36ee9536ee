// Backward passes of a pipeline stage's chunks in two halves, each a section: gradients of inputs,
// for which the stage before waits, and gradients of weights. All that a chunk saved stays until
// the second half has ended, as autograd's graph does, and so does the gradient of each product's
// output. Kernels that make both kinds of gradients at once belong to the first half. Nothing comes
// before the model's first chunk, whose whole backward pass is the second half.
//
// Source: PyTorch, distributed/pipelining/_backward.py, stage_backward_input and
// stage_backward_weight, and stage.py, backward_one_chunk and backward_weight_one_chunk

#include <algorithm>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Whether all that an op of a backward pass makes are gradients of parameters.
bool is_of_weights(const GraphOp& op, const Block& block) {
  return !op.outputs.empty() && std::ranges::all_of(op.outputs, [&](ValueId id) {
    return block.values[static_cast<std::size_t>(id)].role == ValueRole::parameter_gradient;
  });
}

}  // namespace

bool Lowering::writes(const GraphOp& op, const Block& block) const {
  return half_ == BackwardHalf::both ||
         is_of_weights(op, block) == (half_ == BackwardHalf::weights);
}

std::uint32_t Lowering::chunk_inputs(const ChunkLayers& chunk) {
  half_ = BackwardHalf::inputs;
  if (ends_model(chunk)) {
    loss(false);
  } else {
    micro_batches_.front().gradient = received(Phase::backward);
  }
  for (std::size_t layer = chunk.end; !begins_model(chunk) && layer-- > chunk.begin;)
    layer_backward(static_cast<std::int16_t>(layer), false);
  half_ = BackwardHalf::both;
  return end_chunk(Phase::backward);
}

// The weight's gradient of lm_head, and of the final norm where a kernel of its own makes it.
void Lowering::head_weights() {
  for (const HeadProduct& product : head_products_) head_weight_product(product);
  head_products_.clear();
  reduce(units_.back(), false);
}

void Lowering::head_weight_product(const HeadProduct& product) {
  const std::int64_t V = graph_.vocabulary, E = graph_.width;
  const bool adds = adds_head_gradient();
  const bool adds_apart = adds && !rules_.accumulates_in_products && product.is_first;
  const bool adds_product = !adds_apart && (adds || !product.is_first);
  const BufferId gradient =
      adds_apart ? build_.transient(
                       {{V, E, 1}, graph_.dtype, MemoryCategory::logits_and_loss, Space::device})
                 : head_gradient_;
  head_gradient_product(
      adds_product ? Kernel::matmul_weight_backward_add : Kernel::matmul_weight_backward,
      product.from, product.rows, product.d_logits, product.hidden, gradient);
  if (adds_apart) add_gradient(product.from, PendingSum{gradient, head_gradient_, V * E});
}

// No section where backward passes are whole.
std::uint32_t Lowering::chunk_weights(const ChunkLayers& chunk) {
  if (!splits_backward()) return 0;
  if (begins_model(chunk)) {
    for (std::size_t layer = chunk.end; layer-- > chunk.begin;)
      layer_backward(static_cast<std::int16_t>(layer), false);
    embedding_backward(false);
  } else {
    if (ends_model(chunk)) head_weights();
    half_ = BackwardHalf::weights;
    for (std::size_t layer = chunk.end; layer-- > chunk.begin;) {
      FsdpUnit& unit = units_[layer + 1];
      run_backward(
          runs(*unit.block, kept_[layer], Phase::backward, static_cast<std::int16_t>(layer)));
      reduce(unit, false);
    }
    half_ = BackwardHalf::both;
    const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
    for (std::size_t layer = chunk.begin; layer < chunk.end; ++layer) {
      const PreparedBlock& block = *units_[layer + 1].block;
      const Values& values = kept_[layer].front();
      for (std::size_t v = 0; v < values.size(); ++v)
        if (values[v] != no_buffer && block.is_saved[v] &&
            block.graph->values[v].role == ValueRole::activation)
          build_.hold(values[v], last);
    }
  }
  add_pending();
  reduce_deferred();
  return end_chunk(Phase::backward);
}

}  // namespace xt
