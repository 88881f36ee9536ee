// A stage of a pipeline: forward and backward passes of each of its chunks as sections of their
// own. What comes from a neighbouring stage is there before a section begins, so that a section
// never waits for another stage.
//
// Source: Megatron-LM, core/pipeline_parallel/schedules.py, forward_step and backward_step

#include "planner/lower/lowering.h"
#include "planner/lower/pipeline.h"

namespace xt {

bool Lowering::begins_model(const ChunkLayers& chunk) const {
  return stage_->has_embedding && chunk == stage_->chunks.front();
}

bool Lowering::ends_model(const ChunkLayers& chunk) const {
  return stage_->has_head && chunk == stage_->chunks.back();
}

// Activations or their gradient from a neighbouring stage; when they come is known to the pipeline.
BufferId Lowering::received(Phase phase) {
  const MemoryCategory category = phase == Phase::forward ? MemoryCategory::saved_activations
                                                          : MemoryCategory::recomputed_layer;
  const std::int64_t columns = transfer_columns(graph_, strategy_, rules_);
  const BufferId buffer = build_.transient(
      {{strategy_.rank_tokens(), columns, 1}, graph_.dtype, category, Space::device});
  op(Kernel::wait, origin(phase, StepPart::receive), {}, {}, {buffer}, Lane::host);
  return columns == graph_.width ? buffer : gathered_parts(phase, category, buffer);
}

// The parts of all tensor parallel ranks. Before a backward pass the stage's own output, of which
// it kept a part, is gathered once more.
//
// Source: DeepSpeed, runtime/pipe/engine.py, PartitionedTensor in _exec_backward_pass
BufferId Lowering::gathered_parts(Phase phase, MemoryCategory category, BufferId part) {
  const std::int64_t T = strategy_.rank_tokens(), E = graph_.width;
  BufferId whole = no_buffer;
  for (int tensor = 0; tensor < (phase == Phase::backward ? 2 : 1); ++tensor) {
    whole = build_.transient({{T, E, 1}, graph_.dtype, category, Space::device});
    op(Kernel::all_gather, origin(phase, StepPart::receive), {T * E}, {part}, {whole}, Lane::expert,
       Group::tensor);
  }
  return whole;
}

std::uint32_t Lowering::end_chunk(Phase phase) {
  build_.end_section(1, origin(phase, StepPart::section));
  return static_cast<std::uint32_t>(build_.draft().sections.size() - 1);
}

// Brings the weights of the chunk behind `chunk`, long before its first micro-batch.
//
// Source: Megatron-LM, core/pipeline_parallel/schedules.py, param_sync_func
void Lowering::gather_next(const ChunkLayers& chunk) {
  for (const ChunkLayers& next : stage_->chunks)
    if (next.begin == chunk.end && next.end > chunk.end)
      for (std::size_t layer = next.begin; layer < next.end; ++layer)
        gather(units_[layer + 1], Phase::forward);
}

std::uint32_t Lowering::chunk_forward(const ChunkLayers& chunk) {
  if (begins_model(chunk)) gather(units_.front(), Phase::forward);
  gather(units_[chunk.begin + 1], Phase::forward);
  make_rope_tables();
  if (begins_model(chunk)) {
    embedding_forward();
  } else {
    input(chunk.begin, 0) = received(Phase::forward);
  }
  for (std::size_t layer = chunk.begin; layer < chunk.end; ++layer)
    layer_forward(static_cast<std::int16_t>(layer));
  gather_next(chunk);
  if (!offloads(chunk)) return end_chunk(Phase::forward);
  choose_offloaded(chunk);
  split_offloaded();
  const std::uint32_t section = end_chunk(Phase::forward);
  copy_chunk_out();
  return section;
}

// The loss computes gradients at once; it belongs to the backward pass, as that follows at once.
std::uint32_t Lowering::chunk_backward(const ChunkLayers& chunk) {
  if (splits_backward()) return chunk_inputs(chunk);
  if (offloads(chunk)) copy_chunk_in();
  if (ends_model(chunk)) {
    loss(false);
  } else {
    micro_batches_.front().gradient = received(Phase::backward);
  }
  join_offloaded();
  for (std::size_t layer = chunk.end; layer-- > chunk.begin;)
    layer_backward(static_cast<std::int16_t>(layer), false);
  if (begins_model(chunk)) embedding_backward(false);
  add_pending();
  reduce_deferred();
  return end_chunk(Phase::backward);
}

// One micro-batch that is the first, one that is the last; of more, the others are like either.
ChunkSections Lowering::chunk_sections(const ChunkLayers& chunk) {
  ChunkSections sections;
  sections.offloads = offloads(chunk);
  const bool has_several = strategy_.gradient_accumulation > 1;
  is_last_ = !has_several;
  sections.first_forward = sections.forward = chunk_forward(chunk);
  sections.backward = sections.last_backward = chunk_backward(chunk);
  sections.weights = sections.last_weights = chunk_weights(chunk);
  if (!has_several) return sections;
  is_last_ = true;
  sections.forward = chunk_forward(chunk);
  sections.last_backward = chunk_backward(chunk);
  sections.last_weights = chunk_weights(chunk);
  return sections;
}

// The first stage's embedding and the last one's head are copies of one weight.
//
// Source: Megatron-LM, core/distributed/finalize_model_grads.py, _allreduce_embedding_grads
void Lowering::reduce_shared_embedding() {
  if (stage_ == nullptr || !stage_->shares_embedding) return;
  const BufferId gradient = stage_->has_embedding ? piece_view(units_.front(), 0, true)
                                                  : piece_view(units_.back(), 1, true);
  op({Kernel::all_reduce,
      build_.draft().buffer(gradient).dtype,
      Group::embedding,
      {graph_.vocabulary * graph_.width}},
     origin(Phase::reduce, StepPart::replicas), {}, {gradient}, Lane::reduce_scatter);
}

Stage Lowering::run_stage() && {
  make_symbols();
  make_resident();
  make_micro_batches();
  make_units();
  prepare();
  kept_.assign(layers_.size(), {});
  inputs_.assign(layers_.size() + 1, no_buffer);
  is_first_ = false;
  Stage stage;
  for (const ChunkLayers& chunk : stage_->chunks) stage.chunks.push_back(chunk_sections(chunk));
  pair_chunks(stage);
  optimize();
  stage.layers = static_cast<std::int64_t>(layers_.size());
  stage.schedule = std::move(build_).finish();
  return stage;
}

}  // namespace xt
