// The ops of a block with their buffers, written for one micro-batch or for several in lock-step.

#include <optional>
#include <ranges>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

// Whether all that `op` writes are gradients of parameters, of which it clears the old ones.
bool clears_gradients(const GraphOp& op, const Block& block) {
  return op.work.kernel == Kernel::fill_zero &&
         block.values[at(op.outputs.front())].role == ValueRole::parameter_gradient;
}

// Visits the ops of all runs turn by turn: one run after the other executes a turn.
template <typename Visit>
void take_turns(std::span<const BlockRun> runs, std::vector<PreparedOp> PreparedBlock::*ops,
                const std::vector<std::size_t>& turns, Visit visit) {
  std::size_t begin = 0;
  for (const std::size_t end : turns) {
    for (const BlockRun& run : runs)
      for (std::size_t i = begin; i < end; ++i)
        visit((run.block.*ops)[i], run, &run == &runs.back() && i + 1 == turns.back());
    begin = end;
  }
}

// The kernel that adds its product to what it writes, if there is one.
std::optional<Kernel> adding(Kernel kernel) {
  if (kernel == Kernel::matmul_weight_backward) return Kernel::matmul_weight_backward_add;
  if (kernel == Kernel::grouped_matmul_weight_backward)
    return Kernel::grouped_matmul_weight_backward_add;
  return std::nullopt;
}

// Liger's activation leaves gradients where it reads gate and up.
//
// Source: Liger-Kernel, ops/swiglu.py, _swiglu_backward_kernel
void write_over_inputs(const GraphOp& op, Values& values) {
  if (op.work.kernel != Kernel::silu_multiply_backward) return;
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    values[at(op.outputs[i])] = values[at(op.inputs[i + 1])];
}

}  // namespace

Extent Lowering::bound(SymbolKind kind, const BlockRun& run) const {
  const auto own = static_cast<std::size_t>(run.micro_batch) % symbols_.size();
  const PackSymbols& symbols = symbols_[own];
  switch (kind) {
    case SymbolKind::rows_received:
      return Extent::of(symbols.rows_received[static_cast<std::size_t>(run.layer)]);
    case SymbolKind::sum_squared_lengths:
      return Extent::of(symbols.sum_squared_lengths);
    case SymbolKind::longest_sample:
      return Extent::of(symbols.longest_sample);
    case SymbolKind::sample_tokens:
      return Extent::of(symbols.sample_tokens);
  }
  XT_CHECK(false);
}

MemoryCategory Lowering::category(const BlockRun& run, ValueId id) const {
  if (run.phase != Phase::forward) return MemoryCategory::recomputed_layer;
  const GraphValue& value = run.block.graph->values[at(id)];
  if (value.role == ValueRole::output) return MemoryCategory::saved_activations;
  const bool is_held =
      run.layer >= 0 && is_recomputed(run.layer) && holds_unread() && run.block.is_kept[at(id)];
  if (is_held) return MemoryCategory::saved_activations;
  if (!run.block.is_saved[at(id)]) return MemoryCategory::recomputed_layer;
  return run.layer < 0 || run.block.is_kept[at(id)] || !is_recomputed(run.layer)
             ? MemoryCategory::saved_activations
             : MemoryCategory::recomputed_layer;
}

// What is there before the block runs.
BufferId Lowering::given_value(const BlockRun& run, ValueRole role) {
  const MicroBatch& micro_batch = micro_batches_[static_cast<std::size_t>(run.micro_batch)];
  switch (role) {
    case ValueRole::tokens:
      return micro_batch.tokens;
    case ValueRole::positions:
      return micro_batch.positions;
    case ValueRole::boundaries:
      return micro_batch.boundaries;
    case ValueRole::rope_table:
      return micro_batch.table;
    case ValueRole::next_embedding:
      return micro_batch.next_embedding;
    case ValueRole::router_bias:
      return router_bias(run.layer).bias;
    case ValueRole::expert_load:
      return router_bias(run.layer).load;
    case ValueRole::pack_load:
      return micro_batch.load;
    case ValueRole::balance_loss:
      return build_.draft().batch.balance_loss;
    default:
      XT_CHECK(false, static_cast<int>(role));
  }
}

BufferId Lowering::make_value(const BlockRun& run, ValueId id) {
  const GraphValue& value = run.block.graph->values[at(id)];
  if (value.role >= ValueRole::tokens) return given_value(run, value.role);
  XT_CHECK(value.role != ValueRole::parameter && value.role != ValueRole::parameter_gradient,
           at(id));
  // In lock-step, what an exchange writes is memory of its own lane, so that it waits for no
  // compute of another micro-batch. Where it is issued right behind what it sends, there is none.
  const bool is_on_link =
      micro_batches_.size() > 1 && !rules_.is_executed && run.block.is_exchanged[at(id)];
  TensorSpec spec{
      {}, value.dtype, category(run, id), Space::device, is_on_link ? Lane::expert : Lane::compute};
  for (std::size_t d = 0; d < spec.shape.size(); ++d) spec.shape[d] = resolve(value.shape[d], run);
  return build_.transient(spec);
}

// Finds the work of `op`, which all layers share unless it names a symbol of the layer.
void Lowering::know(PreparedOp& op, const BlockRun& run) {
  Work work = op.graph->work;
  for (Extent& extent : work.extents) extent = resolve(extent, run);
  op.work = build_.intern(work);
  op.workspaces.clear();
  rules_.workspaces(work, op.workspaces);
  op.is_known = !op.varies;
}

// The work of `op`; where it adds its product to `sum`, of the kernel that does so.
WorkId Lowering::work_of(const PreparedOp& op, std::optional<BufferId> sum) {
  if (!sum) return op.work;
  constexpr std::size_t sum_bytes = 4, sum_bytes_of_experts = 6;
  Work work = build_.draft().works[at(op.work)];
  work.kernel = *adding(work.kernel);
  const bool is_grouped = kernel_class(work.kernel) == KernelClass::grouped_matrix;
  work.extents[is_grouped ? sum_bytes_of_experts : sum_bytes] =
      width(build_.draft().buffer(*sum).dtype);
  return build_.intern(work);
}

void Lowering::emit(PreparedOp& op, const BlockRun& run, std::span<const OpId> after) {
  const GraphOp& graph = *op.graph;
  const Block& block = *run.block.graph;
  if (run.adds_gradients && clears_gradients(graph, block)) return;
  operands_.clear();
  for (const ValueId id : graph.inputs) {
    BufferId& buffer = run.values[at(id)];
    if (buffer == no_buffer) {
      XT_CHECK(block.values[at(id)].role >= ValueRole::tokens, at(id));
      buffer = make_value(run, id);
    }
    operands_.push_back(buffer);
  }
  if (has_liger_loss()) write_over_inputs(graph, run.values);
  const std::size_t n_inputs = graph.inputs.size();
  const bool adds_product = run.adds_gradients && adds_gradients() &&
                            rules_.accumulates_in_products && adding(graph.work.kernel).has_value();
  added_.clear();
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId id = graph.outputs[i];
    BufferId& buffer = run.values[at(id)];
    if (buffer == no_buffer) buffer = make_value(run, id);
    operands_.push_back(buffer);
    const GraphValue& value = block.values[at(id)];
    if (!run.adds_gradients || adds_product || value.role != ValueRole::parameter_gradient ||
        reads_output(graph.work.kernel, i))
      continue;
    operands_.back() =
        build_.transient({value.shape, value.dtype, MemoryCategory::gradients, Space::device});
    added_.push_back({id, operands_.back()});
  }
  if (!op.is_known) know(op, run);
  const std::span<const BufferId> all(operands_);
  const std::int16_t lock_step = micro_batches_.size() > 1 ? run.micro_batch : std::int16_t{-1};
  const auto sum = adds_product ? std::optional(operands_.back()) : std::nullopt;
  build_.add(work_of(op, sum), {lane_of(graph.lane),
                                {run.phase, graph.part, run.layer, lock_step},
                                all.first(n_inputs),
                                all.subspan(n_inputs),
                                op.workspaces,
                                after});
  for (const auto& [gradient, addend] : added_) add_gradient(run, gradient, addend);
}

// Autograd makes the gradient of a second use of a parameter a tensor of its own and adds it to the
// first.
void Lowering::add_gradient(const BlockRun& run, ValueId gradient, BufferId addend) {
  const auto& shape = run.block.graph->values[at(gradient)].shape;
  const PendingSum pending{addend, run.values[at(gradient)],
                           shape[0].code * shape[1].code * shape[2].code};
  const bool is_late = rules_.adds_after_backward && keeps_gradients();
  if (is_late) pending_sums_.push_back(pending);
  if (is_late && !(is_last_ && has_buckets())) return;
  add_gradient(origin(run.phase, StepPart::accumulate, run.layer, run.micro_batch), pending);
}

// A sum in fp32 is what such a pass takes longest with.
void Lowering::add_gradient(const Origin& from, const PendingSum& pending) {
  Work work;
  work.kernel = Kernel::add;
  work.dtype = build_.draft().buffer(pending.sum).dtype;
  work.extents[0] = pending.elements;
  op(work, from, {pending.addend}, {pending.sum});
}

// Gradients that waited for the end of the backward pass; those of the last micro-batch, where
// buckets are reduced behind it, were added before and are only there until then.
//
// Source: nanotron 0.5, optim/gradient_accumulator.py, backward and get_fp32_accum_hook
void Lowering::add_pending() {
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const PendingSum& pending : pending_sums_) {
    if (is_last_ && has_buckets())
      build_.hold(pending.addend, last);
    else
      add_gradient(origin(Phase::backward, StepPart::accumulate), pending);
  }
  pending_sums_.clear();
}

void Lowering::run_forward(std::span<const BlockRun> runs, std::span<const OpId> last_waits_for) {
  const PreparedBlock& block = runs.front().block;
  take_turns(runs, &PreparedBlock::forward, block.forward_turns,
             [&](PreparedOp& op, const BlockRun& run, bool is_last) {
               emit(op, run, is_last ? last_waits_for : std::span<const OpId>());
             });
}

// Runs again what the backward pass reads; the whole layer where the engine knows no better. A
// compiler that sees all of a layer knows.
void Lowering::recompute(std::span<const BlockRun> runs) {
  const PreparedBlock& block = runs.front().block;
  const bool is_traced = strategy_.is_compiled &&
                         block.layouts[static_cast<std::size_t>(FlatKind::experts)].is_empty();
  const bool is_whole = (rules_.recomputes_whole_layer && strategy_.recompute_ops.is_all()) ||
                        (recomputes_to_end() && !is_traced);
  take_turns(runs, &PreparedBlock::forward, block.forward_turns,
             [&](PreparedOp& op, const BlockRun& run, bool) {
               if (op.is_recomputed || is_whole) emit(op, run);
             });
}

// The last op waits for the reductions in flight, so that what they read does not pile up.
void Lowering::run_backward(std::span<const BlockRun> runs) {
  const std::vector<OpId> reduces = pending_ops();
  const PreparedBlock& block = runs.front().block;
  take_turns(runs, &PreparedBlock::backward, block.backward_turns,
             [&](PreparedOp& op, const BlockRun& run, bool is_last) {
               if (!writes(*op.graph, *block.graph)) return;
               emit(op, run, is_last ? std::span<const OpId>(reduces) : std::span<const OpId>());
             });
}

}  // namespace xt
