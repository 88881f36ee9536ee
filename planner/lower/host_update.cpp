// ZeRO-Offload: weights and moments in fp32 are the host's, which updates them. Gradients go there
// when they are reduced, their norm is taken before; 16-bit weights come back after the update, or,
// where they wait there too, before each gather.
//
// Source: Ren et al. 2021, "ZeRO-Offload", arXiv 2101.06840; Rajbhandari et al. 2021,
// "ZeRO-Infinity", arXiv 2104.07857; DeepSpeed, runtime/zero/stage3.py, partition_grads and
// _optimizer_step

#include "planner/lower/lowering.h"

namespace xt {

// A copy on the device of the shard that a gather sends.
BufferId Lowering::brought(const FsdpUnit& unit, const UnitFlat& flat, Phase phase) {
  const Extent n = flat.shard_elements;
  const BufferId copy = build_.transient({{n, 1, 1},
                                          graph_.dtype,
                                          MemoryCategory::communication_buffers,
                                          Space::device,
                                          Lane::all_gather,
                                          pool(Lane::all_gather)});
  op({Kernel::copy_to_device, graph_.dtype, Group::none, {n}},
     origin(phase, StepPart::all_gather, unit.layer), {flat.narrow}, {copy}, Lane::swap_in);
  return copy;
}

OpId Lowering::leave_on_host(const FsdpUnit& unit, UnitFlat& flat, BufferId reduced, Lane lane) {
  const Extent n = flat.shard_elements;
  const DType dtype = build_.draft().buffer(reduced).dtype;
  op(Kernel::square_sum, origin(Phase::backward, StepPart::norm, unit.layer), {n}, {reduced},
     {build_.draft().batch.grad_norm}, lane);
  flat.gradient_shard =
      build_.transient({{n, 1, 1}, dtype, MemoryCategory::gradients, Space::host, Lane::host});
  return op({Kernel::copy_to_host, dtype, Group::none, {n}},
            origin(Phase::backward, StepPart::swap, unit.layer), {reduced}, {flat.gradient_shard},
            Lane::swap_out);
}

void Lowering::update_on_host(const FsdpUnit& unit, UnitFlat& flat) {
  const Flat stored = build_.draft().flats[static_cast<std::size_t>(flat.flat)];
  const Extent n = flat.shard_elements;
  const Origin from = unit.layer < 0 ? Origin{Phase::optimizer, build_.part(stored.name)}
                                     : origin(Phase::optimizer, StepPart::update, unit.layer);
  const bool stays = strategy_.offloads_parameters;
  const BufferId narrow =
      stays ? flat.narrow
            : build_.transient(
                  {{n, 1, 1}, graph_.dtype, MemoryCategory::optimizer, Space::host, Lane::swap_in});
  op(Kernel::adamw_on_host, from, {n}, {flat.gradient_shard, build_.draft().batch.grad_norm},
     {stored.parameter, stored.exp_avg, stored.exp_avg_sq, narrow}, Lane::host);
  if (stays) return;
  op({Kernel::copy_to_device, graph_.dtype, Group::none, {n}}, from, {narrow}, {flat.narrow},
     Lane::swap_in);
}

}  // namespace xt
