// Chunks of a pipeline stage in pairs: one runs forward while the same or another one runs
// backward, layer by layer from opposite ends; layers that one has more than the other run alone
// behind them. The loss stands before the backward pass, as where chunks run alone.
//
// Source: Megatron-LM, core/pipeline_parallel/combined_1f1b.py, and
// core/models/common/model_chunk_schedule_plan.py, TransformerModelChunkSchedulePlan.run

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {

// The same where another micro-batch runs forward.
void Lowering::layer_backward_of(std::int16_t layer, PassedMicroBatch& passed) {
  const auto take_turns = [&] {
    std::swap(kept_, passed.kept);
    std::swap(inputs_, passed.inputs);
    std::swap(micro_batches_.front().gradient, passed.gradient);
  };
  take_turns();
  layer_backward(layer, false);
  take_turns();
}

std::uint32_t Lowering::chunk_pair(const ChunkLayers& forward, const ChunkLayers& backward) {
  if (ends_model(backward)) {
    loss(false);
  } else {
    micro_batches_.front().gradient = received(Phase::backward);
  }
  PassedMicroBatch passed = pass_micro_batch();
  make_rope_tables();
  if (begins_model(forward)) {
    embedding_forward();
  } else {
    input(forward.begin, 0) = received(Phase::forward);
  }
  const std::size_t n = std::min(forward.end - forward.begin, backward.end - backward.begin);
  for (std::size_t i = 0; i < n; ++i)
    pair_layers(static_cast<std::int16_t>(forward.begin + i),
                static_cast<std::int16_t>(backward.end - 1 - i), passed);
  for (std::size_t layer = backward.end - n; layer-- > backward.begin;)
    layer_backward_of(static_cast<std::int16_t>(layer), passed);
  for (std::size_t layer = forward.begin + n; layer < forward.end; ++layer)
    layer_forward(static_cast<std::int16_t>(layer));
  if (begins_model(backward)) embedding_backward_of(passed);
  return end_chunk(Phase::backward);
}

// A pair needs a micro-batch that is through the chunk that runs backward, and leaves one that is
// through the chunk that runs forward; so pairs stand in trails, each of which begins with a
// forward pass alone and ends with a backward pass alone, which no step runs.
void Lowering::pair_chunks(Stage& stage) {
  XT_CHECK(stage_->pairs.empty() || (keeps_weights() && keeps_gradients()));
  const auto chunk = [&](std::int32_t i) { return stage_->chunks[static_cast<std::size_t>(i)]; };
  is_last_ = false;
  std::vector<ChunkPair> left = stage_->pairs;
  while (!left.empty()) {
    std::int32_t through = left.front().backward;
    chunk_forward(chunk(through));
    for (auto next = left.begin(); next != left.end();
         next = std::ranges::find(left, through, &ChunkPair::backward)) {
      ChunkPair pair = *next;
      left.erase(next);
      pair.section = chunk_pair(chunk(pair.forward), chunk(pair.backward));
      stage.pairs.push_back(pair);
      through = pair.forward;
    }
    chunk_backward(chunk(through));
  }
  is_last_ = true;
}

}  // namespace xt
