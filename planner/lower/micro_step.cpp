// One micro-step: forward through the layers, loss, and back, with gathers a layer ahead, gradients
// reduced a layer behind, and layer inputs swapped out and in between.

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace

Extent Lowering::bound(SymbolKind kind, std::int16_t layer) const {
  switch (kind) {
    case SymbolKind::rows_received:
      return Extent::of(rows_received_[static_cast<std::size_t>(layer)]);
    case SymbolKind::sum_squared_lengths:
      return Extent::of(sum_squared_lengths_);
    case SymbolKind::longest_sample:
      return Extent::of(longest_sample_);
  }
  XT_CHECK(false);
}

MemoryCategory Lowering::category(const BlockRun& run, ValueId id) const {
  if (run.phase != Phase::forward) return MemoryCategory::recomputed_layer;
  const GraphValue& value = run.block.graph->values[at(id)];
  if (value.role == ValueRole::output) return MemoryCategory::saved_activations;
  if (run.layer < 0 || !run.block.is_saved[at(id)]) return MemoryCategory::recomputed_layer;
  const bool keeps_this = value.is_recorded && !rules_.recomputes_whole_layer;
  return keeps_this || !is_recomputed(run.layer) ? MemoryCategory::saved_activations
                                                 : MemoryCategory::recomputed_layer;
}

BufferId Lowering::make_value(const BlockRun& run, ValueId id) {
  const GraphValue& value = run.block.graph->values[at(id)];
  const BatchBuffers& batch = build_.draft().batch;
  if (value.role == ValueRole::tokens) return batch.tokens;
  if (value.role == ValueRole::boundaries) return batch.boundaries;
  if (value.role == ValueRole::rope_table) return table_;
  XT_CHECK(value.role != ValueRole::parameter && value.role != ValueRole::parameter_gradient,
           at(id));
  TensorSpec spec{{}, value.dtype, category(run, id), Space::device};
  for (std::size_t d = 0; d < spec.shape.size(); ++d)
    spec.shape[d] = resolve(value.shape[d], run.layer);
  return build_.transient(spec);
}

// Finds the work of `op`, which all layers share unless it names a symbol of the layer.
void Lowering::know(PreparedOp& op, std::int16_t layer) {
  Work work = op.graph->work;
  for (Extent& extent : work.extents) extent = resolve(extent, layer);
  op.work = build_.intern(work);
  op.workspaces.clear();
  rules_.workspaces(work, op.workspaces);
  op.is_known = !op.varies;
}

void Lowering::emit(PreparedOp& op, const BlockRun& run, std::span<const OpId> after) {
  const GraphOp& graph = *op.graph;
  operands_.clear();
  for (const ValueId id : graph.inputs) {
    BufferId& buffer = run.values[at(id)];
    if (buffer == no_buffer) {
      XT_CHECK(run.block.graph->values[at(id)].role >= ValueRole::tokens, at(id));
      buffer = make_value(run, id);
    }
    operands_.push_back(buffer);
  }
  for (const ValueId id : graph.outputs) {
    BufferId& buffer = run.values[at(id)];
    if (buffer == no_buffer) buffer = make_value(run, id);
    operands_.push_back(buffer);
  }
  if (!op.is_known) know(op, run.layer);
  const std::span<const BufferId> all(operands_);
  const std::size_t n_inputs = graph.inputs.size();
  build_.add(op.work, {graph.lane,
                       {run.phase, graph.part, run.layer, -1},
                       all.first(n_inputs),
                       all.subspan(n_inputs),
                       op.workspaces,
                       after});
}

void Lowering::run_forward(const BlockRun& run, std::span<const OpId> last_waits_for) {
  for (PreparedOp& op : run.block.forward) {
    const bool is_last = &op == &run.block.forward.back();
    emit(op, run, is_last ? last_waits_for : std::span<const OpId>());
  }
}

// The last op waits for the reductions in flight, so that what they read does not pile up.
void Lowering::run_backward(const BlockRun& run) {
  const std::vector<OpId> reduces = pending_ops();
  for (PreparedOp& op : run.block.backward) {
    const bool is_last = &op == &run.block.backward.back();
    emit(op, run, is_last ? std::span<const OpId>(reduces) : std::span<const OpId>());
  }
}

void Lowering::swap_out(std::int16_t layer) {
  const std::size_t i = static_cast<std::size_t>(layer);
  const Extent n = strategy_.pack_length * graph_.width;
  on_host_[i] =
      build_.transient({{n, 1, 1}, graph_.dtype, MemoryCategory::saved_activations, Space::host});
  pending_swap_ = op(Kernel::copy_to_host, origin(Phase::forward, StepPart::swap, layer), {n},
                     {inputs_[i]}, {on_host_[i]}, Lane::swap_out);
}

void Lowering::swap_in(std::int16_t layer) {
  if (layer < 0 || !is_swapped(layer)) return;
  const std::size_t i = static_cast<std::size_t>(layer);
  const Extent n = strategy_.pack_length * graph_.width;
  inputs_[i] = build_.transient({{strategy_.pack_length, graph_.width, 1},
                                 graph_.dtype,
                                 MemoryCategory::saved_activations,
                                 Space::device});
  op(Kernel::copy_to_device, origin(Phase::backward, StepPart::swap, layer), {n}, {on_host_[i]},
     {inputs_[i]}, Lane::swap_in);
}

void Lowering::layer_forward(std::int16_t layer) {
  const std::size_t i = static_cast<std::size_t>(layer);
  Unit& unit = units_[i + 1];
  const bool is_last = i + 1 == graph_.layers.size();
  if (!is_last || rules_.prefetches_head) gather(units_[i + 2], Phase::forward);
  copy_out(unit, Phase::forward);
  PreparedBlock& block = *unit.block;
  Values values(block.graph->values.size(), no_buffer);
  bind_parameters(unit, values);
  values[at(block.input)] = inputs_[i];
  const OpId earlier_swap = pending_swap_;
  pending_swap_ = no_op;
  if (is_swapped(layer) && !rules_.swaps_after_layer) swap_out(layer);
  run_forward({block, values, Phase::forward, layer},
              std::span(&earlier_swap, earlier_swap == no_op ? 0u : 1u));
  if (is_swapped(layer) && rules_.swaps_after_layer) swap_out(layer);
  inputs_[i + 1] = values[at(block.output)];
  if (is_recomputed(layer)) forget(*block.graph, values);
  kept_[i] = std::move(values);
  if (!keeps_gathered(unit)) release(unit);
}

// Drops what the backward pass will compute again.
void Lowering::forget(const Block& block, Values& values) const {
  for (std::size_t v = 0; v < values.size(); ++v)
    if (!block.values[v].is_recorded || rules_.recomputes_whole_layer) values[v] = no_buffer;
}

void Lowering::forward() {
  gather(units_[0], Phase::forward);
  gather(units_[1], Phase::forward);
  table_ = build_.transient({{strategy_.pack_length, graph_.head_dim, 1},
                             DType::fp32,
                             MemoryCategory::other,
                             Space::device});
  op(Kernel::rope_table, origin(Phase::forward, StepPart::rope_table),
     {strategy_.pack_length, graph_.head_dim}, {build_.draft().batch.positions}, {table_});
  copy_out(units_[0], Phase::forward);
  PreparedBlock& block = *units_[0].block;
  Values values(block.graph->values.size(), no_buffer);
  bind_parameters(units_[0], values);
  run_forward({block, values, Phase::forward, -1}, {});
  inputs_[0] = values[at(block.output)];
  if (!keeps_gathered(units_[0])) release(units_[0]);
  for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer)
    layer_forward(static_cast<std::int16_t>(layer));
}

// Runs again what the backward pass reads; the whole layer where the engine knows no better.
void Lowering::recompute(const BlockRun& run) {
  for (PreparedOp& op : run.block.forward)
    if (op.is_recomputed || rules_.recomputes_whole_layer) emit(op, run);
}

void Lowering::layer_backward(std::int16_t layer, bool is_first) {
  const std::size_t i = static_cast<std::size_t>(layer);
  Unit& unit = units_[i + 1];
  if (i > 0 || rules_.gathers_embedding_twice) gather(units_[i], Phase::backward);
  swap_in(static_cast<std::int16_t>(layer - 1));
  copy_out(unit, Phase::backward);
  PreparedBlock& block = *unit.block;
  Values values = std::move(kept_[i]);
  values[at(block.input)] = inputs_[i];
  values[at(block.output_gradient)] = gradient_;
  bind_parameters(unit, values);
  if (is_recomputed(layer)) recompute({block, values, Phase::recompute, layer});
  open_gradients(unit, Phase::backward);
  bind_parameters(unit, values);
  run_backward({block, values, Phase::backward, layer});
  gradient_ = values[at(block.input_gradient)];
  settle(is_first);
  release(unit);
  reduce(unit, is_first);
}

void Lowering::embedding_backward(bool is_first) {
  Unit& unit = units_[0];
  copy_out(unit, Phase::backward);
  open_gradients(unit, Phase::backward);
  PreparedBlock& block = *unit.block;
  Values values(block.graph->values.size(), no_buffer);
  bind_parameters(unit, values);
  values[at(block.output_gradient)] = gradient_;
  run_backward({block, values, Phase::backward, -1});
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
  forward();
  loss(is_first);
  backward(is_first);
  const auto repeat = static_cast<std::int32_t>(strategy_.gradient_accumulation - 1);
  build_.end_section(is_first ? 1 : repeat, origin(Phase::backward, StepPart::section));
}

}  // namespace xt
