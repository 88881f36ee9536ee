// Layers behind the model's own, each of which predicts one further token: it reads the embedding
// once more, of the tokens behind, and has a loss of its own through the same lm_head.
//
// Source: DeepSeek-V3 technical report, arXiv 2412.19437, section 2.2; XTuner V1 (InternLM/xtuner,
// b934f4620), module/mtp/; Megatron-LM, core/transformer/multi_token_prediction.py

#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace

void Lowering::embed_next(std::size_t layer) {
  FsdpUnit& unit = units_.front();
  gather(unit, Phase::forward);
  copy_out(unit, Phase::forward);
  std::vector<Values>& values = kept_of_next_[layer - own_layers()];
  values = embed();
  for (std::size_t m = 0; m < values.size(); ++m)
    micro_batches_[m].next_embedding = values[m][at(unit.block->output)];
}

// The embedding's gradient is summed over its uses and reduced once, when all are through.
void Lowering::embed_next_backward(std::size_t layer, std::span<const Values> of_layer) {
  FsdpUnit& unit = units_.front();
  const bool is_first_use = layer + 1 == layers_.size();
  open_gradients(unit, Phase::backward);
  const ValueId gradient = units_[layer + 1].block->next_embedding_gradient;
  PreparedBlock& block = *unit.block;
  std::vector<Values> values = std::move(kept_of_next_[layer - own_layers()]);
  bind_parameters(unit, values);
  for (std::size_t m = 0; m < values.size(); ++m)
    values[m][at(block.output_gradient)] = of_layer[m][at(gradient)];
  std::vector<BlockRun> all = runs(block, values, Phase::backward, -1);
  all.front().adds_gradients |= !is_first_use;
  run_backward(all);
}

// What came through the layer joins what the loss of its input gave.
void Lowering::add_loss_gradient(std::size_t layer) {
  const Extent n = strategy_.rank_tokens() * graph_.width;
  const std::size_t token = layer - own_layers();
  for (MicroBatch& micro_batch : micro_batches_)
    op(Kernel::add, origin(Phase::backward, StepPart::accumulate, static_cast<std::int16_t>(layer)),
       {n}, {micro_batch.loss_gradients[token]}, {micro_batch.gradient});
}

// The inputs of a layer, of all micro-batches one behind the other.
BufferId Lowering::joined_inputs(std::size_t layer) {
  if (micro_batches_.size() == 1) return input(layer, 0);
  const Extent n = strategy_.rank_tokens() * graph_.width;
  const BufferId whole = build_.transient({{strategy_.loss_tokens(), graph_.width, 1},
                                           graph_.dtype,
                                           MemoryCategory::logits_and_loss,
                                           Space::device});
  for (std::size_t m = 0; m < micro_batches_.size(); ++m)
    cast(origin(Phase::loss, StepPart::final_norm), n, input(layer, m), rows_of(whole, m));
  return whole;
}

// Their layers end in norms of their own.
void Lowering::further_losses() {
  for (MicroBatch& micro_batch : micro_batches_) micro_batch.loss_gradients.clear();
  is_further_loss_ = true;
  for (std::size_t layer = own_layers() + 1; layer <= layers_.size(); ++layer) {
    hidden_ = joined_inputs(layer);
    d_hidden_ = build_.transient({{strategy_.loss_tokens(), graph_.width, 1},
                                  graph_.dtype,
                                  MemoryCategory::logits_and_loss,
                                  Space::device});
    differentiate_loss();
    for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
      micro_batches_[m].loss_gradients.push_back(micro_batches_[m].gradient);
      micro_batches_[m].gradient = rows_of(d_hidden_, m);
    }
  }
  is_further_loss_ = false;
}

}  // namespace xt
