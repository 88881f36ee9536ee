// Micro-steps in pairs: one runs forward while the one before runs backward, layer by layer from
// opposite ends, so that each one's exchanges of rows are hidden behind products of the other.
//
// Source: Megatron-LM, core/pipeline_parallel/combined_1f1b.py, without a pipeline, and
// core/models/common/model_chunk_schedule_plan.py, TransformerLayerSchedulePlan.run

#include <array>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

bool is_exchange(const GraphOp& op) {
  return op.work.kernel == Kernel::all_to_all && op.work.group == Group::expert;
}

// Weights of rows have one column.
bool exchanges_rows(const GraphOp& op) {
  return is_exchange(op) && op.work.extents[2] != Extent(1);
}

// The first and the last exchange of rows; the end of `ops` twice in a dense layer.
BlockPart exchanges(const std::vector<GraphOp>& ops) {
  BlockPart found{ops.size(), ops.size()};
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (!exchanges_rows(ops[i])) continue;
    if (found.end == ops.size()) found.end = i;
    found.begin = i;
  }
  return found;
}

// Where counts go first, as rows wait for them.
std::size_t dispatch_begin(const std::vector<GraphOp>& ops, std::size_t exchange) {
  for (std::size_t i = 0; i < exchange; ++i)
    if (ops[i].work.kernel == Kernel::exchange_counts) return i;
  return exchange;
}

std::size_t behind(std::size_t i, std::size_t n) { return i < n ? i + 1 : n; }

// Attention and router, dispatch, experts, combination, the rest.
std::array<BlockPart, 5> forward_parts(const std::vector<GraphOp>& ops) {
  const std::size_t n = ops.size();
  const auto [dispatch, combine] = exchanges(ops);
  const std::size_t begin = dispatch_begin(ops, dispatch);
  std::size_t end = behind(dispatch, n);
  while (end < combine && is_exchange(ops[end])) ++end;  // of weights
  return {{{0, begin},
           {begin, end},
           {end, combine},
           {combine, behind(combine, n)},
           {behind(combine, n), n}}};
}

// Up to the exchange that undoes the combination, experts, the exchange that undoes the dispatch,
// the rest.
std::array<BlockPart, 4> backward_parts(const std::vector<GraphOp>& ops) {
  const std::size_t n = ops.size();
  const auto [combine, dispatch] = exchanges(ops);
  const std::size_t end = behind(combine, n);
  return {{{0, end}, {end, dispatch}, {dispatch, behind(dispatch, n)}, {behind(dispatch, n), n}}};
}

}  // namespace

void Lowering::emit_part(std::vector<PreparedOp>& ops, const BlockRun& run, const BlockPart& part) {
  for (std::size_t i = part.begin; i < part.end; ++i) emit(ops[i], run);
}

// Weights are there: below stage 3 of ZeRO they came with the first micro-step.
void Lowering::pair_layers(std::int16_t forward, std::int16_t backward, PassedMicroBatch& passed) {
  const auto f = static_cast<std::size_t>(forward), b = static_cast<std::size_t>(backward);
  const FsdpUnit &f_unit = units_[f + 1], &b_unit = units_[b + 1];
  std::vector<Values> f_values = unbound_values(*f_unit.block),
                      b_values = std::move(passed.kept[b]);
  f_values.front()[at(f_unit.block->input)] = input(f, 0);
  b_values.front()[at(b_unit.block->input)] = passed.inputs[b];
  b_values.front()[at(b_unit.block->output_gradient)] = passed.gradient;
  bind_parameters(f_unit, f_values);
  bind_parameters(b_unit, b_values);
  if (is_recomputed(backward)) recompute(runs(*b_unit.block, b_values, Phase::recompute, backward));
  const BlockRun f_run = runs(*f_unit.block, f_values, Phase::forward, forward).front();
  const BlockRun b_run = runs(*b_unit.block, b_values, Phase::backward, backward).front();
  const auto f_parts = forward_parts(f_unit.block->graph->forward);
  const auto b_parts = backward_parts(b_unit.block->graph->backward);
  std::vector<PreparedOp>&f_ops = f_unit.block->forward, &b_ops = b_unit.block->backward;
  emit_part(b_ops, b_run, b_parts[0]);
  emit_part(f_ops, f_run, f_parts[0]);
  emit_part(f_ops, f_run, f_parts[1]);
  emit_part(b_ops, b_run, b_parts[1]);
  emit_part(b_ops, b_run, b_parts[2]);
  emit_part(f_ops, f_run, f_parts[2]);
  emit_part(f_ops, f_run, f_parts[3]);
  emit_part(b_ops, b_run, b_parts[3]);
  emit_part(f_ops, f_run, f_parts[4]);
  passed.gradient = b_values.front()[at(b_unit.block->input_gradient)];
  input(f + 1, 0) = f_values.front()[at(f_unit.block->output)];
  if (is_recomputed(forward)) forget(*f_unit.block, f_values.front());
  kept_[f] = std::move(f_values);
}

// Makes room for the micro-batch that runs forward.
PassedMicroBatch Lowering::pass_micro_batch() {
  PassedMicroBatch passed{std::move(kept_), std::move(kept_of_embedding_), std::move(inputs_),
                          micro_batches_.front().gradient};
  kept_.assign(layers_.size(), {});
  inputs_.assign(layers_.size() + 1, no_buffer);
  return passed;
}

void Lowering::embedding_backward_of(PassedMicroBatch& passed) {
  micro_batches_.front().gradient = passed.gradient;
  std::swap(kept_of_embedding_, passed.embedding);
  embedding_backward(false);
  kept_of_embedding_ = std::move(passed.embedding);
}

// The loss computes gradients at once, so it ends the forward pass of its micro-batch.
void Lowering::pair_micro_steps() {
  PassedMicroBatch passed = pass_micro_batch();
  const auto n_layers = static_cast<std::int16_t>(layers_.size());
  make_rope_tables();
  embedding_forward();
  for (std::int16_t layer = 0; layer < n_layers; ++layer)
    pair_layers(layer, static_cast<std::int16_t>(n_layers - 1 - layer), passed);
  embedding_backward_of(passed);
  loss(false);
}

// The first forward pass, as many pairs as micro-steps follow it, and the last backward pass, in
// which gradients are reduced.
void Lowering::paired_micro_steps() {
  XT_CHECK(strategy_.gradient_accumulation > 1 && keeps_gradients() && micro_batches_.size() == 1);
  XT_CHECK(strategy_.swap_layers == 0, strategy_.swap_layers);
  is_first_ = is_last_ = false;
  kept_.assign(layers_.size(), {});
  inputs_.assign(layers_.size() + 1, no_buffer);
  forward();
  loss(false);
  build_.end_section(1, origin(Phase::forward, StepPart::section));
  pair_micro_steps();
  build_.end_section(static_cast<std::int32_t>(strategy_.gradient_accumulation - 1),
                     origin(Phase::backward, StepPart::section));
  is_last_ = true;
  reduce(units_.back(), false);
  backward(false);
  build_.end_section(1, origin(Phase::backward, StepPart::section));
}

}  // namespace xt
