// Units of FSDP: which parameters are gathered, reduced and updated together, and when.

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {

UnitFlat Lowering::make_flat(const FsdpUnit& unit, const FlatLayout& layout, Group group,
                             std::string name) {
  UnitFlat flat;
  flat.layout = &layout;
  flat.group = strategy_.zero == 0 ? Group::none : group;
  flat.reduces_over = group;
  flat.shard_elements = layout.elements / group_size(flat.group);
  std::vector<Flat>& flats = build_.draft().flats;
  flat.flat = static_cast<std::int32_t>(flats.size());
  flat.adamw_elements = adamw_elements(unit, flat);
  const auto shard = [&](std::int64_t n, MemoryCategory category, Space space) {
    return build_.resident({{n, 1, 1}, DType::fp32, category, space});
  };
  const Space moments = strategy_.swaps_optimizer ? Space::host : space_of_state();
  const bool is_beside = keeps_weights() || keeps_narrow_shards();
  const BufferId parameter =
      shard(flat.shard_elements, is_beside ? MemoryCategory::optimizer : MemoryCategory::parameters,
            space_of_state());
  const BufferId exp_avg = shard(flat.shard_elements, MemoryCategory::optimizer, moments);
  const BufferId exp_avg_sq = shard(flat.adamw_elements, MemoryCategory::optimizer, moments);
  flats.push_back(
      {std::move(name), flat.group, layout.elements, parameter, exp_avg, exp_avg_sq, unit.layer});
  make_copies(flat);
  return flat;
}

// Published names are needed only by who loads and saves weights; for priced engines they would
// be most of the schedule.
void Lowering::place(const FsdpUnit& unit, const UnitFlat& flat) {
  if (!rules_.is_executed) return;
  const std::string prefix = unit.layer < 0
                                 ? unit.block->graph->prefix
                                 : fmt::format(fmt::runtime(unit.block->graph->prefix), unit.layer);
  for (std::size_t i = 0; i < flat.layout->parameters.size(); ++i) {
    const GraphParameter& parameter = unit.block->graph->parameters[flat.layout->parameters[i]];
    for (const Piece& piece : parameter.pieces)
      build_.draft().placements.push_back({prefix + piece.name, piece.shape, piece.n_dimensions,
                                           piece.expert, piece.is_stacked, flat.flat,
                                           flat.layout->offsets[i] + piece.offset_elements});
  }
}

FsdpUnit Lowering::make_unit(PreparedBlock& block, std::int16_t layer, std::string_view label) {
  FsdpUnit unit;
  unit.block = &block;
  unit.layer = layer;
  const auto& [dense, matrices, experts] = block.layouts;
  const std::string name = layer < 0 ? std::string(label) : fmt::format("{} {}", label, layer);
  if (!dense.is_empty()) unit.flats.push_back(make_flat(unit, dense, Group::shard, name));
  if (!matrices.is_empty())
    unit.flats.push_back(make_flat(unit, matrices, Group::shard, name + " matrices"));
  if (!experts.is_empty())
    unit.flats.push_back(make_flat(unit, experts, Group::expert_shard, name + " experts"));
  for (const UnitFlat& flat : unit.flats) place(unit, flat);
  make_router_bias(unit, name);
  return unit;
}

void Lowering::make_units() {
  const auto prepare_block = [&](const Block& block, bool is_layer) {
    const bool has_matrices_apart = is_layer && gathers_for_muon();
    blocks_.push_back(prepared(graph_, block,
                               {group_size(Group::shard), group_size(Group::expert_shard)},
                               strategy_.recompute_ops,
                               {!rules_.recomputes_whole_layer && !recomputes_to_end(),
                                rules_.keeps_attended, rules_.is_executed, has_matrices_apart}));
  };
  blocks_.reserve(graph_.decoder.size() + 2);
  prepare_block(graph_.embedding, false);
  for (const Block& block : graph_.decoder) prepare_block(block, true);
  prepare_block(graph_.head, false);

  units_.reserve(layers_.size() + 2);
  units_.push_back(make_unit(blocks_.front(), -1, "embedding"));
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    units_.push_back(
        make_unit(blocks_[layers_[layer] + 1u], static_cast<std::int16_t>(layer), "layer"));
  units_.push_back(make_unit(blocks_.back(), -1, "head"));
  make_stand_ins();
}

bool Lowering::keeps_gathered(const FsdpUnit& unit) const {
  const bool is_sparse = !units_[units_.size() - 2]
                              .block->layouts[static_cast<std::size_t>(FlatKind::experts)]
                              .is_empty();
  const bool is_root = &unit == &units_.back() || &unit == &units_.front();
  if (is_root && keeps_root()) return true;
  if (&unit == &units_.back()) return is_sparse && rules_.keeps_sparse_head;
  if (&unit == &units_.front()) return graph_.ties_embedding;
  if (!strategy_.reshards_layers) return true;
  if (&unit != &units_[units_.size() - 2]) return false;
  return is_sparse ? rules_.keeps_last_sparse_layer : rules_.keeps_last_dense_layer;
}

void Lowering::gather(FsdpUnit& unit, Phase phase) {
  for (UnitFlat& flat : unit.flats) {
    if (flat.is_stale) refresh(unit, flat, phase);
    if (flat.gathered == no_buffer && flat.received == no_buffer) gather_flat(unit, flat, phase);
  }
}

// Weights whose products are in fp8 are gathered in it; the unit is then a byte.
void Lowering::gather_flat(const FsdpUnit& unit, UnitFlat& flat, Phase phase) {
  if (gathers_wide()) return gather_wide(unit, flat, phase);
  const Origin from = origin(phase, StepPart::all_gather, unit.layer);
  const DType unit_type = flat.layout->has_fp8() ? DType::uint8 : graph_.dtype;
  const std::int64_t n = flat.layout->gathered_bytes / width(unit_type);
  BufferId shard = build_.draft().flats[static_cast<std::size_t>(flat.flat)].parameter;
  if (keeps_narrow_shards()) {
    shard = strategy_.offloads_parameters ? brought(unit, flat, phase) : flat.narrow;
  } else if (unit_type != DType::fp32) {
    const BufferId narrow = build_.transient({{n / group_size(flat.group), 1, 1},
                                              unit_type,
                                              MemoryCategory::communication_buffers,
                                              Space::device,
                                              Lane::all_gather,
                                              pool(Lane::all_gather)});
    cast(from, flat.shard_elements, shard, narrow, Lane::all_gather);
    shard = narrow;
  }
  TensorSpec full{{n, 1, 1}, unit_type, MemoryCategory::gathered_parameters, Space::device};
  full.pool = pool(Lane::all_gather);
  if (rules_.copies_gathered) full.category = MemoryCategory::communication_buffers;
  BufferId& gathered = rules_.copies_gathered ? flat.received : flat.gathered;
  gathered = build_.transient(full);
  op({Kernel::all_gather, unit_type, flat.group, {n}}, from, {shard}, {gathered}, Lane::all_gather);
}

// Shards are fp32 as they are at rest.
void Lowering::gather_wide(const FsdpUnit& unit, UnitFlat& flat, Phase phase) {
  const Origin from = origin(phase, StepPart::all_gather, unit.layer);
  const Extent n = flat.layout->elements;
  TensorSpec full{{n, 1, 1}, DType::fp32, MemoryCategory::gathered_parameters, Space::device};
  full.pool = pool(Lane::all_gather);
  flat.received = build_.transient(full);
  const BufferId shard = build_.draft().flats[static_cast<std::size_t>(flat.flat)].parameter;
  op({Kernel::all_gather, DType::fp32, flat.group, {n}}, from, {shard}, {flat.received},
     Lane::all_gather);
}

void Lowering::copy_out(FsdpUnit& unit, Phase phase) {
  for (UnitFlat& flat : unit.flats) {
    if (flat.needs_quantising) quantise(unit, flat, phase);
    if (phase == Phase::backward && transposes_gathered(flat)) transpose(unit, flat);
    if (flat.received == no_buffer) continue;
    const Buffer& received = build_.draft().buffer(flat.received);
    const DType unit_type = gathers_wide() ? graph_.dtype : received.dtype;
    const Extent n = received.shape[0];
    if (gathers_wide()) flat.wide = flat.received;
    flat.gathered = build_.transient(
        {{n, 1, 1}, unit_type, MemoryCategory::gathered_parameters, Space::device});
    cast(origin(phase, StepPart::copy_out, unit.layer), n, flat.received, flat.gathered);
    flat.received = no_buffer;
  }
}

void Lowering::release(FsdpUnit& unit) {
  const auto hold = [&](BufferId& buffer) {
    if (buffer != no_buffer)
      build_.hold(buffer, OpId(static_cast<std::uint32_t>(build_.n_ops() - 1)));
    buffer = no_buffer;
  };
  for (UnitFlat& flat : unit.flats) {
    hold(flat.wide);
    hold(flat.referenced);
    flat.gathered = flat.quantised == no_buffer ? flat.weights : flat.quantised;
    if (transposes_gathered(flat)) hold(flat.transposed);
  }
}

// Gives up a layer behind its forward pass, all but what its products still reference. A layer that
// is recomputed leaves none behind.
void Lowering::leave(FsdpUnit& unit) {
  if (keeps_gathered(unit)) return;
  std::vector<BufferId> gathered;
  for (const UnitFlat& flat : unit.flats) gathered.push_back(flat.gathered);
  release(unit);
  if (strategy_.memory_efficient_linear || strategy_.zero < 3 || is_recomputed(unit.layer)) return;
  for (std::size_t i = 0; i < gathered.size(); ++i) unit.flats[i].referenced = gathered[i];
}

void Lowering::open_gradients(FsdpUnit& unit, Phase phase) {
  for (UnitFlat& flat : unit.flats) {
    if (flat.gradient != no_buffer) continue;
    const Extent n = flat.layout->elements;
    flat.gradient =
        build_.transient({{n, 1, 1}, graph_.dtype, MemoryCategory::gradients, Space::device});
    for (const auto& [offset, length] : flat.layout->gaps) {
      const BufferId gap =
          build_.view(flat.gradient, offset * width(graph_.dtype), {length, 1, 1}, graph_.dtype);
      op(Kernel::fill_zero, origin(phase, StepPart::padding, unit.layer), {length}, {}, {gap});
    }
  }
}

void Lowering::reduce(FsdpUnit& unit, bool is_first) {
  if (defers_reductions()) {
    if (is_last_) deferred_.push_back(&unit);
    return;
  }
  for (UnitFlat& flat : unit.flats) {
    if (keeps_gradients()) {
      reduce_kept(unit, flat);
    } else {
      reduce_flat(unit, flat, is_first);
    }
  }
}

// Embedding and head as one unit: what one of them reads and writes is there until the other is
// reduced.
void Lowering::reduce_root(bool is_first) {
  std::vector<BufferId> together;
  for (FsdpUnit* unit : {&units_.front(), &units_.back()}) {
    for (UnitFlat& flat : unit->flats) {
      together.insert(together.end(), {flat.gathered, flat.gradient});
      together.push_back(reduce_flat(*unit, flat, is_first));
    }
    release(*unit);
  }
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const BufferId buffer : together)
    if (buffer != no_buffer) build_.hold(buffer, last);
}

// What gradients are copied into where a reduction takes no more of them than a bucket has room
// for; another copy joins them behind it.
//
// Source: DeepSpeed, runtime/zero/stage3.py, __ipg_bucket_flat_buffer, and
// runtime/comm/coalesced_collectives.py, reduce_scatter_coalesced
TensorSpec Lowering::put_together(TensorSpec whole) const {
  const std::int64_t bucket = strategy_.reduce_bucket;
  if (bucket > 0) whole.shape[0] = std::min(whole.shape[0].code, bucket);
  return whole;
}

BufferId Lowering::reduce_flat(const FsdpUnit& unit, UnitFlat& flat, bool is_first) {
  const Origin from = origin(Phase::backward, StepPart::reduce_scatter, unit.layer);
  const Extent n = flat.layout->elements;
  const DType on_wire = graph_.dtype == DType::fp32 ? DType::fp32 : strategy_.reduce_dtype;
  TensorSpec scratch{{n, 1, 1}, on_wire, MemoryCategory::communication_buffers, Space::device};
  wait_for_oldest(flat);
  const BufferId gradient = flat.gradient;
  BufferId full = gradient;
  flat.gradient = no_buffer;
  if (rules_.copies_gradients || on_wire != graph_.dtype) {
    if (has_reductions_in_flight()) scratch.pool = pool(Lane::reduce_scatter);
    const BufferId copy = build_.transient(put_together(scratch));
    cast(origin(Phase::backward, StepPart::copy_in, unit.layer), n, full, copy);
    full = copy;
  }
  const Lane lane = rules_.reduces_behind_gathers ? Lane::all_gather : Lane::reduce_scatter;
  if (strategy_.zero == 3)
    for (std::int64_t i = 0; i < rules_.further_copies; ++i)
      cast(origin(Phase::backward, StepPart::copy_in, unit.layer), n, full, full, lane);
  const DType kept = kept_gradient();
  TensorSpec shard{{flat.shard_elements, 1, 1}, kept, MemoryCategory::gradients, Space::device};
  shard.pool = pool(Lane::reduce_scatter);
  if (strategy_.offloads_optimizer) shard.lane = Lane::swap_out;
  if (is_first && !keeps_gradient_shards()) flat.gradient_shard = build_.transient(shard);
  BufferId reduced = flat.gradient_shard;
  // Through a scratch, parts in any dtype are summed in fp32.
  const DType sum = rules_.reduces_through_scratch ? kept : on_wire;
  if (!is_first || sum != kept) {
    shard.dtype = sum;
    shard.category = MemoryCategory::communication_buffers;
    reduced = build_.transient(shard);
  }
  OpId last{};
  if (rules_.reduces_through_scratch) {
    last = op({Kernel::reduce_scatter, on_wire, flat.group, {n}}, from, {full},
              {reduced, build_.transient(scratch)}, lane);
  } else {
    last = op({Kernel::reduce_scatter, on_wire, flat.group, {n}}, from, {full}, {reduced}, lane);
  }
  if (strategy_.replicas() > 1)
    last = op({Kernel::all_reduce, sum, Group::replica, {flat.shard_elements}},
              origin(Phase::backward, StepPart::replicas, unit.layer), {}, {reduced},
              Lane::reduce_scatter);
  if (sum != kept) {
    convert_reduced(from, flat, reduced, is_first);
    reduced = flat.gradient_shard;
    last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  }
  if (strategy_.offloads_optimizer) {
    last = leave_on_host(unit, flat, reduced, lane);
    reduced = flat.gradient_shard;
  }
  if (has_reductions_in_flight()) in_flight_.push_back({{gradient, full}, n.code});
  pending_.push_back(
      {last, reduced == flat.gradient_shard ? no_buffer : reduced, &flat, unit.layer});
  return full;
}

// A shard reduced in a narrower dtype is widened, or added, on the reduce-scatter's own lane.
void Lowering::convert_reduced(const Origin& from, UnitFlat& flat, BufferId reduced,
                               bool is_first) {
  if (is_first) {
    cast(from, flat.shard_elements, reduced, flat.gradient_shard, Lane::reduce_scatter);
  } else {
    op(Kernel::add, from, {flat.shard_elements}, {reduced}, {flat.gradient_shard},
       Lane::reduce_scatter);
  }
}

std::vector<OpId> Lowering::pending_ops() const {
  std::vector<OpId> ops;
  for (const PendingReduce& reduce : pending_) ops.push_back(reduce.op);
  return ops;
}

void Lowering::settle(bool is_first) {
  for (const PendingReduce& reduce : pending_) {
    if (reduce.reduced == no_buffer) continue;
    XT_CHECK(!is_first);
    op(Kernel::add, origin(Phase::backward, StepPart::accumulate, reduce.layer),
       {reduce.flat->shard_elements}, {reduce.reduced}, {reduce.flat->gradient_shard});
  }
  pending_.clear();
}

BufferId Lowering::weight_view(const FsdpUnit& unit, const UnitFlat& flat, std::size_t i) {
  const GraphParameter& of = unit.block->graph->parameters[flat.layout->parameters[i]];
  return build_.view(flat.gathered, flat.layout->gathered_offsets[i],
                     unit.block->graph->values[static_cast<std::size_t>(of.value)].shape,
                     of.is_fp8 ? DType::fp8 : graph_.dtype);
}

BufferId Lowering::gradient_view(const FsdpUnit& unit, const UnitFlat& flat, std::size_t i) {
  const GraphParameter& of = unit.block->graph->parameters[flat.layout->parameters[i]];
  const DType dtype = build_.draft().buffer(flat.gradient).dtype;
  return build_.view(flat.gradient, flat.layout->offsets[i] * width(dtype),
                     unit.block->graph->values[static_cast<std::size_t>(of.gradient)].shape, dtype);
}

BufferId Lowering::piece_view(const FsdpUnit& unit, std::size_t parameter, bool is_gradient) {
  for (const UnitFlat& flat : unit.flats)
    for (std::size_t i = 0; i < flat.layout->parameters.size(); ++i)
      if (flat.layout->parameters[i] == parameter)
        return is_gradient ? gradient_view(unit, flat, i) : weight_view(unit, flat, i);
  XT_CHECK(false, parameter);
}

// For each micro-batch, the values of `block`, none of which is bound to a buffer yet.
std::vector<Values> Lowering::unbound_values(const PreparedBlock& block) const {
  return std::vector<Values>(micro_batches_.size(), Values(block.graph->values.size(), no_buffer));
}

// All micro-batches see the same views.
void Lowering::bind_parameters(const FsdpUnit& unit, std::span<Values> values) {
  const auto bind = [&](ValueId id, BufferId view) {
    for (Values& of : values) of[static_cast<std::size_t>(id)] = view;
  };
  for (const UnitFlat& flat : unit.flats) {
    for (std::size_t i = 0; i < flat.layout->parameters.size(); ++i) {
      const GraphParameter& parameter = unit.block->graph->parameters[flat.layout->parameters[i]];
      if (flat.gathered != no_buffer) bind(parameter.value, weight_view(unit, flat, i));
      if (flat.gradient != no_buffer) bind(parameter.gradient, gradient_view(unit, flat, i));
    }
  }
}

}  // namespace xt
