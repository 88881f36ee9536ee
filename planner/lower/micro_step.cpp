// One micro-step: forward through the layers, loss, and back, with gathers a layer ahead, gradients
// reduced a layer behind, and layer inputs swapped out and in between.

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace

Extent Lowering::resolve(Extent extent, std::int16_t layer) const {
  if (!extent.is_symbol()) return extent;
  switch (static_cast<SymbolKind>(extent.symbol())) {
    case SymbolKind::rows_received:
      return Extent::of(rows_received_[static_cast<std::size_t>(layer)]);
    case SymbolKind::sum_squared_lengths:
      return Extent::of(sum_squared_lengths_);
    case SymbolKind::longest_sample:
      return Extent::of(longest_sample_);
  }
  XT_CHECK(false);
}

BufferId Lowering::make_value(const GraphValue& value, const Block& block, std::size_t i,
                              Phase phase, std::int16_t layer) {
  const BatchBuffers& batch = build_.draft().batch;
  if (value.role == ValueRole::tokens) return batch.tokens;
  if (value.role == ValueRole::boundaries) return batch.boundaries;
  if (value.role == ValueRole::rope_table) return table_;
  XT_CHECK(value.role != ValueRole::parameter && value.role != ValueRole::parameter_gradient, i);
  MemoryCategory category = MemoryCategory::recomputed_layer;
  const bool is_forward = phase == Phase::forward;
  if (is_forward && value.role == ValueRole::output) category = MemoryCategory::saved_activations;
  if (is_forward && layer >= 0) {
    const bool is_saved = is_saved_[graph_.layers[static_cast<std::size_t>(layer)]][i];
    const bool keeps_all = !is_recomputed(layer);
    const bool keeps_this = value.is_recorded && !rules_.recomputes_whole_layer;
    if (is_saved && (keeps_all || keeps_this)) category = MemoryCategory::saved_activations;
  }
  TensorSpec spec{{}, value.dtype, category, Space::device};
  for (std::size_t d = 0; d < spec.shape.size(); ++d)
    spec.shape[d] = resolve(block.values[i].shape[d], layer);
  return build_.transient(spec);
}

OpId Lowering::emit(const GraphOp& graph_op, Values& values, const Block& block, Phase phase,
                    std::int16_t layer, std::span<const OpId> after) {
  operands_.clear();
  for (const ValueId id : graph_op.inputs) {
    BufferId& buffer = values[at(id)];
    if (buffer == no_buffer) {
      XT_CHECK(block.values[at(id)].role >= ValueRole::tokens, at(id));
      buffer = make_value(block.values[at(id)], block, at(id), phase, layer);
    }
    operands_.push_back(buffer);
  }
  for (const ValueId id : graph_op.outputs) {
    BufferId& buffer = values[at(id)];
    if (buffer == no_buffer) buffer = make_value(block.values[at(id)], block, at(id), phase, layer);
    operands_.push_back(buffer);
  }
  Work work = graph_op.work;
  for (Extent& extent : work.extents) extent = resolve(extent, layer);
  const std::span<const BufferId> all(operands_);
  return add(work, {phase, graph_op.part, layer, -1}, graph_op.lane,
             all.first(graph_op.inputs.size()), all.subspan(graph_op.inputs.size()), after);
}

void Lowering::swap_out(std::int16_t layer) {
  const std::size_t i = static_cast<std::size_t>(layer);
  const Extent n = strategy_.pack_length * graph_.width;
  on_host_[i] =
      build_.transient({{n, 1, 1}, graph_.dtype, MemoryCategory::saved_activations, Space::host});
  pending_swap_ = op(Kernel::copy_to_host, origin(Phase::forward, "swap", layer), {n}, {inputs_[i]},
                     {on_host_[i]}, Lane::swap_out);
}

void Lowering::swap_in(std::int16_t layer) {
  if (layer < 0 || !is_swapped(layer)) return;
  const std::size_t i = static_cast<std::size_t>(layer);
  const Extent n = strategy_.pack_length * graph_.width;
  inputs_[i] = build_.transient({{strategy_.pack_length, graph_.width, 1},
                                 graph_.dtype,
                                 MemoryCategory::saved_activations,
                                 Space::device});
  op(Kernel::copy_to_device, origin(Phase::backward, "swap", layer), {n}, {on_host_[i]},
     {inputs_[i]}, Lane::swap_in);
}

void Lowering::layer_forward(std::int16_t layer) {
  const std::size_t i = static_cast<std::size_t>(layer);
  Unit& unit = units_[i + 1];
  const bool is_last = i + 1 == graph_.layers.size();
  if (!is_last || rules_.prefetches_head) gather(units_[i + 2], Phase::forward);
  copy_out(unit, Phase::forward);
  const Block& block = *unit.block;
  Values values(block.values.size(), no_buffer);
  bind_parameters(unit, values);
  for (std::size_t v = 0; v < block.values.size(); ++v)
    if (block.values[v].role == ValueRole::input) values[v] = inputs_[i];
  const OpId earlier_swap = pending_swap_;
  pending_swap_ = no_op;
  if (is_swapped(layer) && !rules_.swaps_after_layer) swap_out(layer);
  for (std::size_t o = 0; o < block.forward.size(); ++o) {
    const bool waits = o + 1 == block.forward.size() && earlier_swap != no_op;
    emit(block.forward[o], values, block, Phase::forward, layer,
         std::span(&earlier_swap, waits ? 1u : 0u));
  }
  if (is_swapped(layer) && rules_.swaps_after_layer) swap_out(layer);
  for (std::size_t v = 0; v < block.values.size(); ++v)
    if (block.values[v].role == ValueRole::output) inputs_[i + 1] = values[v];
  if (is_recomputed(layer))
    for (std::size_t v = 0; v < block.values.size(); ++v)
      if (!block.values[v].is_recorded || rules_.recomputes_whole_layer) values[v] = no_buffer;
  kept_[i] = std::move(values);
  if (!keeps_gathered(unit)) release(unit);
}

void Lowering::forward() {
  gather(units_[0], Phase::forward);
  gather(units_[1], Phase::forward);
  table_ = build_.transient({{strategy_.pack_length, graph_.head_dim, 1},
                             DType::fp32,
                             MemoryCategory::other,
                             Space::device});
  op(Kernel::rope_table, origin(Phase::forward, "rope_table"),
     {strategy_.pack_length, graph_.head_dim}, {build_.draft().batch.positions}, {table_});
  copy_out(units_[0], Phase::forward);
  const Block& block = graph_.embedding;
  Values values(block.values.size(), no_buffer);
  bind_parameters(units_[0], values);
  for (const GraphOp& graph_op : block.forward) emit(graph_op, values, block, Phase::forward, -1);
  for (std::size_t v = 0; v < block.values.size(); ++v)
    if (block.values[v].role == ValueRole::output) inputs_[0] = values[v];
  if (!keeps_gathered(units_[0])) release(units_[0]);
  for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer)
    layer_forward(static_cast<std::int16_t>(layer));
}

// Runs again what the backward pass reads; the whole layer where the engine knows no better.
void Lowering::recompute(const Block& block, Values& values, std::int16_t layer) {
  const std::vector<bool>& wanted = recomputed_[graph_.layers[static_cast<std::size_t>(layer)]];
  for (std::size_t o = 0; o < block.forward.size(); ++o)
    if (wanted[o] || rules_.recomputes_whole_layer)
      emit(block.forward[o], values, block, Phase::recompute, layer);
}

void Lowering::layer_backward(std::int16_t layer, bool is_first) {
  const std::size_t i = static_cast<std::size_t>(layer);
  Unit& unit = units_[i + 1];
  if (i > 0 || rules_.gathers_embedding_twice) gather(units_[i], Phase::backward);
  swap_in(static_cast<std::int16_t>(layer - 1));
  copy_out(unit, Phase::backward);
  const Block& block = *unit.block;
  Values values = std::move(kept_[i]);
  for (std::size_t v = 0; v < block.values.size(); ++v) {
    if (block.values[v].role == ValueRole::input) values[v] = inputs_[i];
    if (block.values[v].role == ValueRole::output_gradient) values[v] = gradient_;
  }
  bind_parameters(unit, values);
  if (is_recomputed(layer)) recompute(block, values, layer);
  open_gradients(unit, Phase::backward);
  bind_parameters(unit, values);
  const std::vector<OpId> reduces = pending_ops();
  for (std::size_t o = 0; o < block.backward.size(); ++o) {
    const bool waits = o + 1 == block.backward.size();
    emit(block.backward[o], values, block, Phase::backward, layer,
         waits ? std::span<const OpId>(reduces) : std::span<const OpId>());
  }
  for (std::size_t v = 0; v < block.values.size(); ++v)
    if (block.values[v].role == ValueRole::input_gradient) gradient_ = values[v];
  settle(is_first);
  release(unit);
  reduce(unit, is_first);
}

void Lowering::embedding_backward(bool is_first) {
  Unit& unit = units_[0];
  copy_out(unit, Phase::backward);
  open_gradients(unit, Phase::backward);
  const Block& block = graph_.embedding;
  Values values(block.values.size(), no_buffer);
  bind_parameters(unit, values);
  for (std::size_t v = 0; v < block.values.size(); ++v)
    if (block.values[v].role == ValueRole::output_gradient) values[v] = gradient_;
  const std::vector<OpId> reduces = pending_ops();
  for (std::size_t o = 0; o < block.backward.size(); ++o) {
    const bool waits = o + 1 == block.backward.size();
    emit(block.backward[o], values, block, Phase::backward, -1,
         waits ? std::span<const OpId>(reduces) : std::span<const OpId>());
  }
  settle(is_first);
  release(unit);
  reduce(unit, is_first);
}

void Lowering::backward(bool is_first) {
  const auto n_layers = static_cast<std::int16_t>(graph_.layers.size());
  gather(units_[static_cast<std::size_t>(n_layers)], Phase::backward);
  swap_in(static_cast<std::int16_t>(n_layers - 1));
  for (std::int16_t layer = n_layers; layer-- > 0;) layer_backward(layer, is_first);
  embedding_backward(is_first);
  settle(is_first);
}

void Lowering::micro_step(bool is_first) {
  const std::size_t n_layers = graph_.layers.size();
  kept_.assign(n_layers, {});
  inputs_.assign(n_layers + 1, no_buffer);
  on_host_.assign(n_layers, no_buffer);
  pending_swap_ = no_op;
  if (recomputed_.empty()) {
    for (const Block& block : graph_.decoder) {
      recomputed_.push_back(recomputed_ops(block));
      std::vector<bool> is_saved(block.values.size(), false);
      for (const GraphOp& graph_op : block.backward)
        for (const ValueId id : graph_op.inputs) is_saved[at(id)] = true;
      for (std::size_t v = 0; v < block.values.size(); ++v)
        if (block.values[v].is_recorded) is_saved[v] = true;
      is_saved_.push_back(std::move(is_saved));
    }
  }
  forward();
  loss(is_first);
  backward(is_first);
  const auto repeat = static_cast<std::int32_t>(strategy_.gradient_accumulation - 1);
  build_.end_section(is_first ? 1 : repeat, origin(Phase::backward, "section"));
}

}  // namespace xt
