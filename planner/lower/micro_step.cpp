// One micro-step: forward through the layers, loss, and back, with gathers a layer ahead, gradients
// reduced a layer behind, and layer inputs swapped out and in between.

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace

void Lowering::swap_out(std::int16_t layer) {
  const Extent n = strategy_.rank_tokens() * graph_.width;
  for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
    BufferId& on_host = on_host_[static_cast<std::size_t>(layer) * micro_batches_.size() + m];
    const BufferId from = input(static_cast<std::size_t>(layer), m);
    const DType dtype = build_.draft().buffer(from).dtype;
    on_host = build_.transient({{n, 1, 1}, dtype, MemoryCategory::saved_activations, Space::host});
    pending_swap_ =
        op({Kernel::copy_to_host, dtype, Group::none, {n}},
           origin(Phase::forward, StepPart::swap, layer), {from}, {on_host}, Lane::swap_out);
  }
}

void Lowering::swap_in(std::int16_t layer) {
  if (layer < 0 || !is_swapped(layer)) return;
  const std::int64_t T = strategy_.rank_tokens(), E = graph_.width;
  for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
    const BufferId from = on_host_[static_cast<std::size_t>(layer) * micro_batches_.size() + m];
    const DType dtype = build_.draft().buffer(from).dtype;
    BufferId& to = input(static_cast<std::size_t>(layer), m);
    to = build_.transient({{T, E, 1}, dtype, MemoryCategory::saved_activations, Space::device});
    op({Kernel::copy_to_device, dtype, Group::none, {T * E}},
       origin(Phase::backward, StepPart::swap, layer), {from}, {to}, Lane::swap_in);
  }
}

// One run per set of values; a backward pass takes the micro-batches in reverse order.
std::vector<BlockRun> Lowering::runs(PreparedBlock& block, std::span<Values> values, Phase phase,
                                     std::int16_t layer) const {
  std::vector<BlockRun> result;
  result.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t m = phase == Phase::backward ? values.size() - 1 - i : i;
    result.push_back({block, values[m], phase, layer, static_cast<std::int16_t>(m),
                      phase == Phase::backward && (i > 0 || adds_gradients())});
  }
  return result;
}

void Lowering::layer_forward(std::int16_t layer) {
  const std::size_t i = static_cast<std::size_t>(layer);
  FsdpUnit& unit = units_[i + 1];
  const bool is_last = i + 1 == layers_.size();
  if (!is_last || rules_.prefetches_head) gather(units_[i + 2], Phase::forward);
  if (predicts_further(i + 1)) gather(units_.front(), Phase::forward);
  if (predicts_further(i)) embed_next(i);
  copy_out(unit, Phase::forward);
  PreparedBlock& block = *unit.block;
  std::vector<Values> values = unbound_values(block);
  bind_parameters(unit, values);
  for (std::size_t m = 0; m < values.size(); ++m) values[m][at(block.input)] = input(i, m);
  const OpId earlier_swap = pending_swap_;
  pending_swap_ = no_op;
  if (is_swapped(layer) && !rules_.swaps_after_layer) swap_out(layer);
  run_forward(runs(block, values, Phase::forward, layer),
              std::span(&earlier_swap, earlier_swap == no_op ? 0u : 1u));
  if (is_swapped(layer) && rules_.swaps_after_layer) swap_out(layer);
  for (std::size_t m = 0; m < values.size(); ++m) input(i + 1, m) = values[m][at(block.output)];
  hold_keys(block, values);
  if (is_recomputed(layer))
    for (Values& of : values) forget(block, of);
  kept_[i] = std::move(values);
  leave(unit);
}

// Drops what the backward pass will compute again; what the micro-batch brings is its own.
void Lowering::forget(const PreparedBlock& block, Values& values) {
  for (std::size_t v = 0; v < values.size(); ++v)
    if (!block.is_kept[v] && block.graph->values[v].role < ValueRole::tokens) values[v] = no_buffer;
}

// Without a compiler, what is kept by its kind of op is kept though no backward pass reads it.
void Lowering::hold_unread(const PreparedBlock& block, const Values& values) {
  if (!holds_unread()) return;
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (std::size_t v = 0; v < values.size(); ++v)
    if (block.is_kept[v] && !block.is_saved[v] && static_cast<ValueId>(v) != block.output)
      build_.hold(values[v], last);
}

std::vector<Values> Lowering::embed() {
  FsdpUnit& unit = units_.front();
  std::vector<Values> values = unbound_values(*unit.block);
  bind_parameters(unit, values);
  run_forward(runs(*unit.block, values, Phase::forward, -1), {});
  if (!keeps_gathered(unit)) release(unit);
  return values;
}

void Lowering::embedding_forward() {
  kept_of_embedding_ = embed();
  for (std::size_t m = 0; m < micro_batches_.size(); ++m)
    input(0, m) = kept_of_embedding_[m][at(units_.front().block->output)];
}

void Lowering::make_rope_tables() {
  const std::int64_t T = strategy_.product_tokens(), D = graph_.rotary_size;
  for (MicroBatch& micro_batch : micro_batches_) {
    if (D == 0) break;
    micro_batch.table =
        build_.transient({{T, D, 1}, DType::fp32, MemoryCategory::other, Space::device});
    op(Kernel::rope_table, origin(Phase::forward, StepPart::rope_table), {T, D},
       {micro_batch.positions}, {micro_batch.table});
  }
}

// A head that the model reads itself is there before its first module runs.
void Lowering::forward() {
  if (keeps_read_head()) {
    gather(units_.back(), Phase::forward);
    copy_out(units_.back(), Phase::forward);
  }
  gather(units_[0], Phase::forward);
  if (keeps_root()) gather(units_.back(), Phase::forward);
  gather(units_[1], Phase::forward);
  make_rope_tables();
  clear_pack_loads();
  copy_out(units_[0], Phase::forward);
  embedding_forward();
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layer_forward(static_cast<std::int16_t>(layer));
}

void Lowering::layer_backward(std::int16_t layer, bool is_first) {
  const std::size_t i = static_cast<std::size_t>(layer);
  FsdpUnit& unit = units_[i + 1];
  if (i > 0 || rules_.gathers_embedding_twice) gather(units_[i], Phase::backward);
  swap_in(static_cast<std::int16_t>(layer - 1));
  copy_out(unit, Phase::backward);
  PreparedBlock& block = *unit.block;
  std::vector<Values> values = std::move(kept_[i]);
  for (std::size_t m = 0; m < values.size(); ++m) {
    values[m][at(block.input)] = input(i, m);
    values[m][at(block.output_gradient)] = micro_batches_[m].gradient;
  }
  bind_parameters(unit, values);
  if (is_recomputed(layer)) {
    recompute(runs(block, values, Phase::recompute, layer));
    for (const Values& of : values) hold_unread(block, of);
  }
  open_gradients(unit, Phase::backward);
  bind_parameters(unit, values);
  run_backward(runs(block, values, Phase::backward, layer));
  for (std::size_t m = 0; m < values.size(); ++m)
    micro_batches_[m].gradient = values[m][at(block.input_gradient)];
  if (half_ == BackwardHalf::inputs) {
    kept_[i] = std::move(values);
    return;
  }
  if (predicts_further(i)) embed_next_backward(i, values);
  settle(is_first);
  release(unit);
  reduce(unit, is_first);
  if (predicts_further(i)) add_loss_gradient(i);
}

void Lowering::embedding_backward(bool is_first) {
  FsdpUnit& unit = units_[0];
  copy_out(unit, Phase::backward);
  open_gradients(unit, Phase::backward);
  PreparedBlock& block = *unit.block;
  std::vector<Values> values = std::move(kept_of_embedding_);
  bind_parameters(unit, values);
  for (std::size_t m = 0; m < values.size(); ++m)
    values[m][at(block.output_gradient)] = micro_batches_[m].gradient;
  std::vector<BlockRun> all = runs(block, values, Phase::backward, -1);
  all.front().adds_gradients |= graph_.further_tokens > 0;
  run_backward(all);
  settle(is_first);
  if (keeps_root()) {
    reduce_root(is_first);
    return;
  }
  release(unit);
  if (keeps_read_head()) release_read_head();
  reduce(unit, is_first);
}

void Lowering::release_read_head() {
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const UnitFlat& flat : units_.back().flats) build_.hold(flat.gathered, last);
  release(units_.back());
}

void Lowering::backward(bool is_first) {
  const auto n_layers = static_cast<std::int16_t>(layers_.size());
  gather(units_[static_cast<std::size_t>(n_layers)], Phase::backward);
  swap_in(static_cast<std::int16_t>(n_layers - 1));
  for (std::int16_t layer = n_layers; layer-- > 0;) layer_backward(layer, is_first);
  embedding_backward(is_first);
  settle(is_first);
  wait_for_all();
  add_pending();
}

void Lowering::micro_step(bool is_first, std::int64_t repeat) {
  is_first_ = is_first;
  const std::size_t n_layers = layers_.size();
  kept_.assign(n_layers, {});
  inputs_.assign((n_layers + 1) * micro_batches_.size(), no_buffer);
  on_host_.assign(n_layers * micro_batches_.size(), no_buffer);
  kept_of_next_.assign(static_cast<std::size_t>(graph_.further_tokens), {});
  pending_swap_ = no_op;
  forward();
  loss(is_first);
  backward(is_first);
  hold_outputs();
  log_metrics();
  build_.end_section(static_cast<std::int32_t>(repeat), origin(Phase::backward, StepPart::section));
}

}  // namespace xt
