// Stages of ZeRO below 3: 16-bit weights stay whole on every rank, beside fp32 weights and AdamW's
// moments, which data-parallel ranks split from stage 1 on. Below stage 2 gradients stay whole too,
// accumulate over the micro-steps, and are reduced behind the backward pass of the last one. So do
// weights and gradients of a pipeline's stage at stage 3, from its first micro-batch to its last.
//
// Source: Rajbhandari et al. 2019, "ZeRO", arXiv 1910.02054, section 5; Megatron-LM,
// core/distributed/param_and_grad_buffer.py and core/optimizer/distrib_optimizer.py

#include "planner/lower/lowering.h"

namespace xt {

// What a rank keeps of the unit beside fp32 weights and moments.
void Lowering::make_copies(UnitFlat& flat) {
  const auto resident = [&](std::int64_t n, DType dtype, MemoryCategory category) {
    return build_.resident({{n, 1, 1}, dtype, category, Space::device});
  };
  const std::int64_t n = flat.layout->elements;
  if (keeps_weights()) {
    flat.weights = keeps_in_fp8(flat) ? resident(flat.layout->gathered_bytes, DType::uint8,
                                                 MemoryCategory::parameters)
                                      : resident(n, graph_.dtype, MemoryCategory::parameters);
    flat.gathered = flat.weights;
    if (flat.layout->has_fp8()) make_fp8_copies(flat);
    flat.is_stale = gathers_in_forward() && is_split(flat);
  } else if (keeps_narrow_shards()) {
    const bool is_fp8 = flat.layout->has_fp8();
    const Extent shard =
        is_fp8 ? flat.layout->gathered_bytes / group_size(flat.group) : flat.shard_elements;
    flat.narrow = build_.resident({{shard, 1, 1},
                                   is_fp8 ? DType::uint8 : graph_.dtype,
                                   MemoryCategory::parameters,
                                   strategy_.offloads_parameters ? Space::host : Space::device});
  }
  if (keeps_gradients())
    flat.gradient = resident(n, strategy_.reduce_dtype, MemoryCategory::gradients);
  if (keeps_gradient_shards())
    flat.gradient_shard = resident(flat.shard_elements, kept_gradient(), MemoryCategory::gradients);
  if (has_buckets() && group_size(flat.reduces_over) > 1)
    resident(n, graph_.dtype, MemoryCategory::communication_buffers);
}

BufferId Lowering::own_weights(const UnitFlat& flat) {
  if (flat.weights == no_buffer) return flat.narrow;
  const Buffer& weights = build_.draft().buffer(flat.weights);
  const std::int64_t n = weights.shape[0].code / group_size(flat.group);
  return build_.view(flat.weights, 0, {n, 1, 1}, weights.dtype);
}

// Weights that are gathered for a layer are transposed for its backward pass alone.
//
// Source: Megatron-LM, core/distributed/fsdp, keep_fp8_transpose_cache off
void Lowering::transpose(const FsdpUnit& unit, UnitFlat& flat) {
  const Extent n = flat.layout->fp8_elements;
  flat.transposed =
      build_.transient({{n, 1, 1}, DType::fp8, MemoryCategory::gathered_parameters, Space::device});
  op(Kernel::cast, origin(Phase::backward, StepPart::copy_out, unit.layer),
     {n, 2 * width(DType::fp8)}, {flat.gathered}, {flat.transposed});
}

// Transformer Engine keeps weights in fp8 twice, as they are and transposed; where 16-bit weights
// are kept too, both are made from them.
//
// Source: Transformer Engine, pytorch/module/base.py, get_weight_workspace, is_first_microbatch;
// pytorch/tensor/float8_tensor.py
void Lowering::make_fp8_copies(UnitFlat& flat) {
  const auto resident = [&](std::int64_t n, DType dtype) {
    return build_.resident({{n, 1, 1}, dtype, MemoryCategory::parameters, Space::device});
  };
  if (!keeps_in_fp8(flat)) {
    flat.quantised = resident(flat.layout->gathered_bytes, DType::uint8);
    flat.gathered = flat.quantised;
  }
  flat.transposed = resident(flat.layout->fp8_elements, DType::fp8);
  flat.needs_quantising = true;
}

// Once a step, before the weights' first use. A scale of the tensor as it is needs a pass before,
// over what is kept in 16 bits; that of 8-bit weights was found by the update.
void Lowering::quantise(const FsdpUnit& unit, UnitFlat& flat, Phase phase) {
  const Origin from = origin(phase, StepPart::copy_out, unit.layer);
  const Extent n = flat.layout->fp8_elements;
  const std::int64_t copy = width(DType::fp8), wide = width(graph_.dtype);
  if (keeps_in_fp8(flat)) {
    op(Kernel::cast, from, {n, 2 * copy}, {flat.weights}, {flat.transposed});
  } else {
    const bool finds_scales = strategy_.fp8_recipe == Fp8Recipe::tensorwise;
    op(Kernel::cast, from, {n, (finds_scales ? 2 : 1) * wide + 2 * copy}, {flat.weights},
       {flat.quantised, flat.transposed});
  }
  flat.needs_quantising = false;
}

// Brings what the other ranks updated.
void Lowering::refresh(const FsdpUnit& unit, UnitFlat& flat, Phase phase) {
  const Buffer weights = build_.draft().buffer(flat.weights);  // own_weights() adds a buffer
  op({Kernel::all_gather, weights.dtype, flat.group, {weights.shape[0]}},
     origin(phase, StepPart::all_gather, unit.layer), {own_weights(flat)}, {flat.weights},
     Lane::all_gather);
  flat.is_stale = false;
}

// Sums are begun at zero where every micro-step adds to them.
void Lowering::clear_gradients() {
  if (!keeps_gradients() || !rules_.sums_from_zero) return;
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats)
      op({Kernel::fill_zero, strategy_.reduce_dtype, Group::none, {flat.layout->elements}},
         origin(Phase::prepare, StepPart::accumulate, unit.layer), {}, {flat.gradient});
}

// Replicas of split state are further ranks that gradients are summed over. Buckets are copies.
//
// Source: InternEvo, solver/optimizer/hybrid_zero_optim.py, which reduces over all data-parallel
// ranks and broadcasts within the ranks of zero1; solver/optimizer/store.py, TensorBucket
void Lowering::all_reduce_kept(const FsdpUnit& unit, const UnitFlat& flat, Lane lane) {
  const Group over = strategy_.replicas() > 1 ? Group::world : flat.reduces_over;
  const Phase phase = reduces_at_end() ? Phase::reduce : Phase::backward;
  const Origin from = origin(phase, StepPart::all_reduce, unit.layer);
  const std::int64_t n = flat.layout->elements;
  const DType dtype = strategy_.reduce_dtype;
  BufferId bucket = flat.gradient;
  if (rules_.copies_gradients) {
    bucket =
        build_.transient({{n, 1, 1}, dtype, MemoryCategory::communication_buffers, Space::device});
    cast(from, n, flat.gradient, bucket);
  }
  op({Kernel::all_reduce, dtype, over, {n}}, from, {}, {bucket}, lane);
  if (rules_.copies_gradients) cast(from, n, bucket, flat.gradient, lane);
}

void Lowering::reduce_kept(const FsdpUnit& unit, UnitFlat& flat) {
  flat.gradient_shard = flat.gradient;
  if (is_split(flat))
    flat.gradient_shard =
        build_.view(flat.gradient, 0, {flat.shard_elements, 1, 1}, strategy_.reduce_dtype);
  if (is_last_ && !reduces_at_end()) reduce_whole(unit, flat);
}

void Lowering::reduce_whole(const FsdpUnit& unit, const UnitFlat& flat) {
  if (group_size(flat.reduces_over) * strategy_.replicas() == 1) return;
  const DType dtype = strategy_.reduce_dtype;
  const Lane lane = rules_.reduces_behind_gathers ? Lane::all_gather : Lane::reduce_scatter;
  if (strategy_.zero == 0 || rules_.all_reduces_gradients) {
    all_reduce_kept(unit, flat, lane);
    return;
  }
  const Phase phase = reduces_at_end() ? Phase::reduce : Phase::backward;
  op({Kernel::reduce_scatter, dtype, flat.reduces_over, {flat.layout->elements}},
     origin(phase, StepPart::reduce_scatter, unit.layer), {flat.gradient}, {flat.gradient_shard},
     lane);
}

// Stages of FSDP2 reduce nothing before their last micro-batch is through all of a chunk.
//
// Source: PyTorch, distributed/pipelining/stage.py, backward_maybe_with_nosync
void Lowering::reduce_deferred() {
  for (FsdpUnit* unit : deferred_)
    for (UnitFlat& flat : unit->flats) reduce_kept(*unit, flat);
  deferred_.clear();
}

// One bucket: its gradients are copied together, summed, and scaled on their way back.
void Lowering::reduce_bucket(std::span<UnitFlat* const> flats, std::int64_t elements) {
  const Origin from = origin(Phase::reduce, StepPart::all_reduce);
  const DType dtype = strategy_.reduce_dtype;
  const BufferId all = build_.transient(
      {{elements, 1, 1}, dtype, MemoryCategory::communication_buffers, Space::device});
  const auto each = [&](const auto& visit) {
    std::int64_t offset = 0;
    for (const UnitFlat* flat : flats) {
      const std::int64_t n = flat->layout->elements;
      visit(*flat, n, build_.view(all, offset * width(dtype), {n, 1, 1}, dtype));
      offset += n;
    }
  };
  each([&](const UnitFlat& flat, std::int64_t n, BufferId part) {
    cast(from, n, flat.gradient, part);
  });
  op({Kernel::all_reduce, dtype, flats.front()->reduces_over, {elements}}, from, {}, {all},
     Lane::reduce_scatter);
  cast(from, elements, all, all);
  each([&](const UnitFlat& flat, std::int64_t n, BufferId part) {
    cast(from, n, part, flat.gradient);
  });
}

// Source: Megatron-LM, core/distributed/finalize_model_grads.py, where nothing overlaps; nanotron
// 0.5, trainer.py, sync_gradients_across_dp, where optimizer state is split
void Lowering::reduce_at_end() {
  if (rules_.reduces_at_end) return reduce_in_buckets();
  if (!reduces_at_end()) return;
  for (FsdpUnit& unit : units_)
    for (const UnitFlat& flat : unit.flats) reduce_whole(unit, flat);
}

// Source: DeepSpeed, runtime/engine.py, buffered_allreduce_fallback, with the bucket of a pipeline
void Lowering::reduce_in_buckets() {
  constexpr std::int64_t bucket_elements = 500'000'000;
  std::vector<UnitFlat*> bucket;
  std::int64_t elements = 0;
  const auto flush = [&] {
    if (!bucket.empty()) reduce_bucket(bucket, elements);
    bucket.clear();
    elements = 0;
  };
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) {
      if (group_size(flat.reduces_over) == 1) continue;
      bucket.push_back(&flat);
      elements += flat.layout->elements;
      if (elements > bucket_elements) flush();
    }
  flush();
}

// Tensor parallel ranks that share tokens see a part of them in norms and routers each.
//
// Source: Megatron-LM, core/distributed/finalize_model_grads.py: one flat all-reduce
void Lowering::reduce_over_tensor_ranks() {
  if (!shares_tokens()) return;
  std::vector<std::int64_t> elements;
  std::int64_t n = 0;
  for (const FsdpUnit& unit : units_) {
    std::int64_t of_unit = 0;
    for (const GraphParameter& parameter : unit.block->graph->parameters)
      if (!parameter.is_split && !parameter.is_expert) of_unit += parameter.elements;
    const std::int64_t ranks =
        keeps_gradients() || of_unit == 0 ? 1 : group_size(unit.flats.front().group);
    elements.push_back((of_unit + ranks - 1) / ranks);
    n += elements.back();
  }
  const Origin from = origin(Phase::reduce, StepPart::tensor_ranks);
  const FsdpUnit& any = units_.front().flats.empty() ? units_[1] : units_.front();
  const DType dtype = build_.draft().buffer(any.flats.front().gradient_shard).dtype;
  const BufferId all =
      build_.transient({{n, 1, 1}, dtype, MemoryCategory::communication_buffers, Space::device});
  const auto copy = [&](bool is_back) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (elements[i] == 0) continue;
      const BufferId part = build_.view(all, offset * width(dtype), {elements[i], 1, 1}, dtype);
      const BufferId gradient = units_[i].flats.front().gradient_shard;
      cast(from, elements[i], is_back ? part : gradient, is_back ? gradient : part);
      offset += elements[i];
    }
  };
  copy(false);
  op({Kernel::all_reduce, dtype, Group::tensor, {n}}, from, {}, {all}, Lane::reduce_scatter);
  copy(true);
}

// AdamW reads gradients in fp32.
void Lowering::widen_gradient(const FsdpUnit& unit, UnitFlat& flat) {
  if (build_.draft().buffer(flat.gradient_shard).dtype == DType::fp32) return;
  const BufferId wide = build_.transient(
      {{flat.shard_elements, 1, 1}, DType::fp32, MemoryCategory::gradients, Space::device});
  cast(origin(Phase::optimizer, StepPart::accumulate, unit.layer), flat.shard_elements,
       flat.gradient_shard, wide);
  flat.gradient_shard = wide;
}

void Lowering::widen_gradients() {
  if (keeps_gradient_shards() || strategy_.offloads_optimizer) return;
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) widen_gradient(unit, flat);
}

// Gradients that are kept are widened for the parameters that are updated next.
//
// Source: DeepSpeed, runtime/zero/stage3.py, step, and sub_group_size of zero/config.py
void Lowering::update_in_groups() {
  constexpr std::int64_t most_elements = 1'000'000'000;
  std::vector<std::pair<const FsdpUnit*, UnitFlat*>> group;
  std::int64_t elements = 0;
  const auto flush = [&] {
    for (const auto& [unit, flat] : group) widen_gradient(*unit, *flat);
    for (const auto& [unit, flat] : group) update(*unit, *flat);
    group.clear();
    elements = 0;
  };
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) {
      group.emplace_back(&unit, &flat);
      elements += flat.shard_elements;
      if (elements >= most_elements) flush();
    }
  flush();
}

// Narrows what was updated, and brings it to all ranks where the next forward pass does not.
void Lowering::publish_weights() {
  if (strategy_.offloads_optimizer || (!keeps_weights() && !keeps_narrow_shards())) return;
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats) {
      const Flat& stored = build_.draft().flats[static_cast<std::size_t>(flat.flat)];
      const BufferId wide = stored.parameter;
      cast(origin(Phase::optimizer, StepPart::copy_out, unit.layer), flat.shard_elements, wide,
           own_weights(flat));
    }
  if (!keeps_weights() || gathers_in_forward()) return;
  if (rules_.broadcasts_weights) return broadcast_weights();
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats)
      if (is_split(flat)) refresh(unit, flat, Phase::optimizer);
}

}  // namespace xt
