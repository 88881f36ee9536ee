#include "planner/lower/lower.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Forward, recompute and backward of all layers, gathers and copies on top.
std::size_t expected_ops(const OpGraph& graph, std::span<const std::uint16_t> layers,
                         const Strategy& strategy) {
  std::size_t ops = 100;
  const auto packs = static_cast<std::size_t>(strategy.intra_layer_micro_batches);
  for (const std::uint16_t layer : layers) {
    const Block& block = graph.decoder[layer];
    ops += packs * (2 * block.forward.size() + block.backward.size()) + 16;
  }
  ops += static_cast<std::size_t>(strategy.loss_tokens() /
                                  std::max<std::int64_t>(1, strategy.loss_chunk)) *
         8;
  return strategy.gradient_accumulation > 1 ? 2 * ops : ops;
}

}  // namespace

Lowering::Lowering(const OpGraph& graph, std::span<const std::uint16_t> layers,
                   const Strategy& strategy, const EngineRules& rules, const StagePart* stage)
    : graph_(graph),
      layers_(layers),
      strategy_(strategy),
      rules_(rules),
      stage_(stage),
      build_(strategy.engine, static_cast<std::int32_t>(strategy.ranks),
             expected_ops(graph, layers, strategy)) {
  Schedule& draft = build_.draft();
  for (const std::string& part : graph.parts) build_.part(part);
  draft.constants = graph.constants;
  const auto stages = static_cast<std::int32_t>(strategy.pipeline_parallel);
  const auto world = static_cast<std::int32_t>(strategy.stage_ranks());
  const auto expert = static_cast<std::int32_t>(strategy.expert_parallel);
  const auto shape = [&](Group group) -> GroupShape& {
    return draft.groups[static_cast<std::size_t>(group)];
  };
  shape(Group::world) = {stages * world, 1};
  if (stages > 1) shape(Group::embedding) = {2, (stages - 1) * world};
  shape(Group::expert) = {expert, 1};
  const auto shard =
      strategy.shard_ranks == 0 ? world : static_cast<std::int32_t>(strategy.shard_ranks);
  const auto tensor = static_cast<std::int32_t>(strategy.tensor_parallel);
  const auto sequence = static_cast<std::int32_t>(strategy.sequence_parallel);
  shape(Group::tensor) = {tensor, 1};
  shape(Group::sequence) = {sequence, tensor};
  shape(Group::context) = {static_cast<std::int32_t>(strategy.context_parallel), sequence * tensor};
  shape(Group::replica) = {world / shard, shard};
  shape(Group::expert_shard) = {shard / expert, expert};
  shape(Group::shard) = rules.shards_dense_over_world ? GroupShape{shard / tensor, tensor}
                                                      : shape(Group::expert_shard);
}

std::int64_t Lowering::group_size(Group group) {
  return build_.draft().groups[static_cast<std::size_t>(group)].size;
}

// Parts are numbered in the order in which ops first name them.
Origin Lowering::origin(Phase phase, StepPart part, std::int16_t layer, std::int16_t chunk) {
  const auto i = static_cast<std::size_t>(part);
  if (step_parts_[i] == 0)
    step_parts_[i] = static_cast<std::int16_t>(build_.part(step_part_names[i]) + 1);
  return {phase, static_cast<std::uint8_t>(step_parts_[i] - 1), layer, chunk};
}

// Exchanges that overlap nothing are ops of the compute lane.
Lane Lowering::lane_of(Lane lane) const {
  const bool exchanges =
      lane == Lane::all_gather || lane == Lane::reduce_scatter || lane == Lane::expert;
  const bool are_alone = rules_.overlaps_nothing || !strategy_.communication_overlap;
  return exchanges && are_alone ? Lane::compute : lane;
}

OpId Lowering::op(Kernel kernel, const Origin& from, std::initializer_list<Extent> extents,
                  std::initializer_list<BufferId> inputs, std::initializer_list<BufferId> outputs,
                  Lane lane, Group group, std::span<const OpId> after) {
  Work work;
  work.kernel = kernel;
  work.dtype = graph_.dtype;
  work.group = group;
  std::copy(extents.begin(), extents.end(), work.extents.begin());
  return op(work, from, inputs, outputs, lane, after);
}

OpId Lowering::op(const Work& work, const Origin& from, std::initializer_list<BufferId> inputs,
                  std::initializer_list<BufferId> outputs, Lane lane, std::span<const OpId> after) {
  workspaces_.clear();
  rules_.workspaces(work, workspaces_);
  return build_.add({work,
                     lane_of(lane),
                     from,
                     {inputs.begin(), inputs.size()},
                     {outputs.begin(), outputs.size()},
                     workspaces_,
                     after});
}

OpId Lowering::cast(const Origin& from, Extent elements, BufferId x, BufferId y, Lane lane) {
  const auto width_of = [&](BufferId id) { return width(build_.draft().buffer(id).dtype); };
  return op(Kernel::cast, from, {elements, width_of(x) + width_of(y)}, {x}, {y}, lane);
}

void Lowering::make_resident() {
  const std::int64_t T = strategy_.product_tokens();
  const std::int64_t n_packs = strategy_.intra_layer_micro_batches;
  const auto of = [&](std::int64_t n, DType dtype) {
    return build_.resident({{n, 1, 1}, dtype, MemoryCategory::other, Space::device});
  };
  BatchBuffers& batch = build_.draft().batch;
  batch.tokens = of(n_packs * T, DType::int64);
  batch.labels = of(n_packs * T, DType::int64);
  batch.positions = of(n_packs * T, DType::int64);
  batch.boundaries = of(n_packs * (strategy_.pack_length + 1), DType::int32);
  batch.valid_tokens = of(1, DType::fp32);
  make_balance_loss();
  if (strategy_.reduce_bucket > 0)
    build_.resident({{strategy_.reduce_bucket, 1, 1},
                     graph_.dtype,
                     MemoryCategory::communication_buffers,
                     Space::device});
  scalars_ = of(2, DType::fp32);
  batch.loss = build_.view(scalars_, 0, {1, 1, 1}, DType::fp32);
  batch.grad_norm = build_.view(scalars_, width(DType::fp32), {1, 1, 1}, DType::fp32);
}

// The packs of a micro-step lie one behind the other; the loss sees them as one.
void Lowering::make_micro_batches() {
  const std::int64_t T = strategy_.product_tokens();
  const std::int64_t n_packs = strategy_.intra_layer_micro_batches;
  const BatchBuffers batch = build_.draft().batch;
  const auto part = [&](BufferId whole, std::int64_t pack, std::int64_t n, DType dtype) {
    return n_packs == 1 ? whole : build_.view(whole, pack * n * width(dtype), {n, 1, 1}, dtype);
  };
  for (std::int64_t pack = 0; pack < n_packs; ++pack) {
    MicroBatch& micro_batch = micro_batches_.emplace_back();
    micro_batch.tokens = part(batch.tokens, pack, T, DType::int64);
    micro_batch.positions = part(batch.positions, pack, T, DType::int64);
    micro_batch.boundaries = part(batch.boundaries, pack, strategy_.pack_length + 1, DType::int32);
  }
}

void Lowering::prepare() {
  op(Kernel::fill_zero, origin(Phase::prepare, StepPart::scalars), {2}, {}, {scalars_});
  op(Kernel::all_reduce, origin(Phase::prepare, StepPart::valid_tokens), {1}, {},
     {build_.draft().batch.valid_tokens}, Lane::reduce_scatter, Group::world);
  clear_gradients();
  clear_expert_loads();
  clear_balance_loss();
  build_.end_section(1, origin(Phase::prepare, StepPart::section));
}

namespace {

// Two averages, a root and its scaling, the decay and the step, each a pass: 88 bytes an element,
// of which the fused kernel moves 28.
//
// Source: MosaicML Composer, optim/decoupled_weight_decay.py; PyTorch, optim/adamw.py
constexpr std::int64_t further_bytes = 88 - 28;

}  // namespace

// Where passes go over all parameters, second moments' roots and those with epsilon added are there
// of all at once.
//
// Source: PyTorch 2.0, optim/adamw.py, _multi_tensor_adamw: exp_avg_sq_sqrt and denom
std::vector<BufferId> Lowering::roots_of_all() {
  std::vector<BufferId> buffers;
  if (!rules_.updates_all_at_once) return buffers;
  const Origin from = origin(Phase::optimizer, StepPart::update);
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) {
      BufferId of = build_.draft().flats[static_cast<std::size_t>(flat.flat)].exp_avg_sq;
      for (int i = 0; i < 2; ++i) {
        const BufferId root = build_.transient(
            {{flat.shard_elements, 1, 1}, DType::fp32, MemoryCategory::workspace, Space::device});
        op(Kernel::cast, from, {flat.shard_elements, further_bytes / 2}, {of}, {root});
        buffers.push_back(root);
        of = root;
      }
    }
  return buffers;
}

// AdamW on one flat, or on what Muon leaves of it. Moments that wait in host memory are fetched for
// it and written back, and nothing of it overlaps the next flat's.
//
// Source: XTuner V1 (InternLM/xtuner, b934f4620), optim/, SwapAdamW: one parameter after the other
void Lowering::update(const FsdpUnit& unit, UnitFlat& flat) {
  if (flat.adamw_elements == 0 && gathers_for_muon()) return update_by_gathered_muon(unit, flat);
  if (flat.adamw_elements == 0) return;
  if (strategy_.offloads_optimizer) return update_on_host(unit, flat);
  const Flat stored = build_.draft().flats[static_cast<std::size_t>(flat.flat)];
  const Extent n = flat.adamw_elements;
  const Origin from = unit.layer < 0 ? Origin{Phase::optimizer, build_.part(stored.name)}
                                     : origin(Phase::optimizer, StepPart::update, unit.layer);
  op(Kernel::clip, from, {n}, {build_.draft().batch.grad_norm}, {flat.gradient_shard});
  Work work;
  work.kernel = Kernel::adamw;
  work.extents[0] = n;
  workspaces_.clear();
  rules_.workspaces(work, workspaces_);
  const std::int64_t largest =
      std::min(flat.layout->largest_piece / group_size(flat.group), flat.adamw_elements);
  for (std::int64_t copy = 0; copy < rules_.optimizer_copies; ++copy)
    workspaces_.push_back({{largest, 1, 1}});
  if (rules_.updates_op_by_op)
    op(Kernel::cast, from, {n, further_bytes}, {flat.gradient_shard}, {flat.gradient_shard});
  const std::array<BufferId, 2> moments{fetched(stored.exp_avg, from),
                                        fetched(stored.exp_avg_sq, from)};
  const std::array<BufferId, 2> inputs{flat.gradient_shard, build_.draft().batch.grad_norm};
  const std::array<BufferId, 3> outputs{stored.parameter, moments[0], moments[1]};
  build_.add({work, Lane::compute, from, inputs, outputs, workspaces_, {}});
  if (!strategy_.swaps_optimizer) return;
  write_back(moments[0], stored.exp_avg, from);
  pending_swap_ = write_back(moments[1], stored.exp_avg_sq, from);
}

// `moment` on the device: itself, or a copy once what was swapped before is written back.
BufferId Lowering::fetched(BufferId moment, const Origin& from) {
  if (!strategy_.swaps_optimizer) return moment;
  const Extent n = build_.draft().buffer(moment).shape[0];
  const BufferId copy = build_.transient({{n, 1, 1},
                                          DType::fp32,
                                          MemoryCategory::optimizer,
                                          Space::device,
                                          Lane::swap_out});  // it ends when it is written back
  const std::span<const OpId> after(&pending_swap_, pending_swap_ == no_op ? 0u : 1u);
  op({Kernel::copy_to_device, DType::fp32, Group::none, {n}}, from, {moment}, {copy}, Lane::swap_in,
     after);
  return copy;
}

OpId Lowering::write_back(BufferId copy, BufferId moment, const Origin& from) {
  const Extent n = build_.draft().buffer(moment).shape[0];
  return op({Kernel::copy_to_host, DType::fp32, Group::none, {n}}, from, {copy}, {moment},
            Lane::swap_out);
}

// Ranks that hold the same shards count them once.
void Lowering::sum_scalars() {
  const Origin from = origin(Phase::optimizer, StepPart::norm);
  const BatchBuffers batch = build_.draft().batch;
  if (strategy_.replicas() == 1) {
    op(Kernel::all_reduce, from, {2}, {}, {scalars_}, Lane::reduce_scatter, Group::world);
    return;
  }
  op(Kernel::all_reduce, from, {1}, {}, {batch.loss}, Lane::reduce_scatter, Group::world);
  op(Kernel::all_reduce, from, {1}, {}, {batch.grad_norm}, Lane::reduce_scatter, Group::shard);
}

// Gradients of parameters that several ranks of an expert parallel group hold are summed first, and
// where the engine does so, those of all replicas once more; then one all-reduce carries the norm
// and the loss, and every flat is clipped and updated.
void Lowering::optimize() {
  for (FsdpUnit& unit : units_) {
    for (UnitFlat& flat : unit.flats) {
      const bool is_held_twice = flat.group == Group::shard && !rules_.shards_dense_over_world &&
                                 strategy_.expert_parallel > 1;
      const bool is_reduced_again = rules_.reduces_replicas_again && strategy_.replicas() > 1;
      if (!is_held_twice && !is_reduced_again) continue;
      op(Kernel::all_reduce, origin(Phase::reduce, StepPart::replicas, unit.layer),
         {flat.shard_elements}, {}, {flat.gradient_shard}, Lane::reduce_scatter,
         is_held_twice ? Group::expert : Group::replica);
    }
  }
  reduce_shared_embedding();
  reduce_at_end();
  reduce_over_tensor_ranks();
  widen_gradients();
  const BufferId grad_norm = build_.draft().batch.grad_norm;
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) {
      if (strategy_.offloads_optimizer) continue;  // taken when they were reduced
      op(Kernel::square_sum, origin(Phase::optimizer, StepPart::norm, unit.layer),
         {flat.shard_elements}, {flat.gradient_shard}, {grad_norm});
    }
  sum_scalars();
  pending_swap_ = no_op;
  if (strategy_.optimizer == Optimizer::muon && !gathers_for_muon()) update_by_muon();
  const std::vector<BufferId> together = roots_of_all();
  if (keeps_gradient_shards()) {
    update_in_groups();
  } else {
    for (FsdpUnit& unit : units_)
      for (UnitFlat& flat : unit.flats) update(unit, flat);
  }
  update_router_biases();
  sum_balance_loss();
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const BufferId buffer : together) build_.hold(buffer, last);
  publish_weights();
  build_.end_section(1, origin(Phase::optimizer, StepPart::section));
}

// The first micro-step begins what the others add to; where gradients stay whole, the last one
// reduces them.
void Lowering::micro_steps() {
  const std::int64_t n = strategy_.gradient_accumulation;
  const std::int64_t n_last = keeps_gradients() && n > 1 ? 1 : 0;
  if (strategy_.expert_parallel_overlap) return paired_micro_steps();
  is_last_ = n_last == 0;
  micro_step(true, 1);
  if (n - 1 - n_last > 0) micro_step(false, n - 1 - n_last);
  is_last_ = true;
  if (n_last > 0) micro_step(false, 1);
}

Schedule Lowering::run() && {
  make_symbols();
  make_resident();
  make_micro_batches();
  make_units();
  prepare();
  micro_steps();
  optimize();
  return std::move(build_).finish();
}

GraphOptions graph_options(const Strategy& strategy) {
  const EngineRules* rules = engine_named(strategy.engine);
  XT_CHECK(rules != nullptr, strategy.engine);
  GraphOptions options;
  options.tokens = strategy.product_tokens();
  options.dtype = strategy.compute_dtype;
  options.expert_parallel = strategy.expert_parallel;
  options.dispatch = strategy.dispatch;
  options.sequence_parallel = strategy.sequence_parallel;
  options.exchanges_through_scratch = rules->reduces_through_scratch;
  options.context_parallel = strategy.context_parallel;
  options.context_exchange = strategy.context_exchange;
  options.tensor_parallel = strategy.tensor_parallel;
  options.tensor_sequence_parallel = strategy.tensor_sequence_parallel;
  options.overlaps_tensor_parallel = rules->overlaps_tensor_parallel;
  options.copies_shared_tokens =
      rules->copies_shared_tokens && strategy.pack_length > strategy.sample_length;
  options.exchanges_in_pieces = strategy.tensor_parallel_overlap;
  options.has_fp8_products = strategy.has_fp8_products;
  options.fp8_recipe = strategy.fp8_recipe;
  options.has_transformer_engine = rules->has_transformer_engine;
  options.hides_exchange = rules->hides_exchange;
  options.keeps_router_bias = rules->is_executed;
  options.has_balance_loss = strategy.has_balance_loss;
  options.repeats_key_heads = rules->repeats_key_heads;
  options.fuses_gate_up = rules->fuses_gate_up;
  options.joins_projections = rules->joins_projections;
  options.joins_gradients = rules->joins_gradients;
  options.sums_branches = rules->sums_branches || !strategy.is_compiled;
  options.puts_heads_first = rules->puts_heads_first;
  options.fuses_swiglu = rules->fuses_swiglu;
  options.stacks_heads = rules->stacks_heads;
  options.weighs_activations = rules->weighs_activations;
  options.routes_op_by_op = rules->routes_op_by_op;
  options.is_compiled = strategy.is_compiled;
  options.fuses_scaled_rotary = rules->fuses_scaled_rotary;
  options.widens_norms = rules->widens_norms;
  options.widens_residuals = rules->widens_residuals;
  options.fuses_experts = strategy.fuses_experts;
  options.fuses_attention = strategy.fuses_attention;
  if (!strategy.fuses_attention) options.sample_length = strategy.sample_length;
  options.longest_fused_softmax = rules->longest_fused_softmax;
  return options;
}

Schedule lower(const OpGraph& graph, const Strategy& strategy) {
  return lower(graph, graph.layers, strategy);
}

Schedule lower(const OpGraph& graph, std::span<const std::uint16_t> layers,
               const Strategy& strategy) {
  const EngineRules* rules = engine_named(strategy.engine);
  XT_CHECK(rules != nullptr, strategy.engine);
  XT_CHECK(strategy.pipeline_parallel == 1, strategy.pipeline_parallel);
  XT_CHECK(graph.tokens == strategy.product_tokens() && graph.dtype == strategy.compute_dtype);
  return Lowering(graph, layers, strategy, *rules).run();
}

}  // namespace xt
