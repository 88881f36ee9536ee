// Muon as xt_run has it: matrices lie in flats of their own, whose ranks gather the update of a
// flat, orthogonalise some matrices each, and sum what they found.
//
// Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; XTuner V1
// (InternLM/xtuner, b934f4620), optim/muon.py, for the momentum, the scale and the decay

#include <map>

#include "planner/lower/lowering.h"

namespace xt {

// Views into `whole` of the matrices of a flat, those of equal shape side by side.
std::map<std::array<std::int64_t, 2>, std::vector<BufferId>> Lowering::matrices_in(
    const FsdpUnit& unit, const UnitFlat& flat, BufferId whole) {
  std::map<std::array<std::int64_t, 2>, std::vector<BufferId>> by_shape;
  for (std::size_t i = 0; i < flat.layout->parameters.size(); ++i)
    for (const Piece& piece : unit.block->graph->parameters[flat.layout->parameters[i]].pieces) {
      const std::int64_t m = piece.shape[0], n = piece.shape[1];
      const std::int64_t first = flat.layout->offsets[i] + piece.offset_elements;
      by_shape[{m, n}].push_back(
          build_.view(whole, first * width(DType::fp32), {m, n, 1}, DType::fp32));
    }
  return by_shape;
}

// As many matrices at once as there are ranks, each of which makes one orthogonal and clears the
// others.
void Lowering::orthogonalise_parts(const FsdpUnit& unit, const UnitFlat& flat, BufferId whole) {
  const auto ranks = static_cast<std::size_t>(group_size(flat.group));
  const Origin from = origin(Phase::optimizer, StepPart::muon, unit.layer);
  for (const auto& [shape, matrices] : matrices_in(unit, flat, whole)) {
    const Work work{Kernel::orthogonalise, DType::fp32, flat.group, {shape[0], shape[1]}};
    workspaces_.clear();
    rules_.workspaces(work, workspaces_);
    for (std::size_t first = 0; first < matrices.size(); first += ranks) {
      const std::span<const BufferId> some =
          std::span(matrices).subspan(first, std::min(ranks, matrices.size() - first));
      build_.add({work, Lane::compute, from, {}, some, workspaces_, {}});
    }
  }
}

void Lowering::update_by_gathered_muon(const FsdpUnit& unit, UnitFlat& flat) {
  const Flat stored = build_.draft().flats[static_cast<std::size_t>(flat.flat)];
  const Extent n = flat.shard_elements, all = flat.layout->elements;
  const Origin from = origin(Phase::optimizer, StepPart::muon, unit.layer);
  const BufferId norm = build_.draft().batch.grad_norm, update = flat.gradient_shard;
  const auto pass = [&](Kernel kernel, std::initializer_list<BufferId> inputs,
                        std::initializer_list<BufferId> outputs) {
    op({kernel, DType::fp32, Group::none, {n}}, from, inputs, outputs);
  };
  const auto buffer = [&] {
    return build_.transient({{all, 1, 1}, DType::fp32, MemoryCategory::optimizer, Space::device});
  };
  pass(Kernel::muon_momentum, {norm}, {stored.exp_avg, update});
  if (is_split(flat)) {
    const BufferId whole = buffer();
    op({Kernel::all_gather, DType::fp32, flat.group, {all}}, from, {update}, {whole},
       Lane::all_gather);
    orthogonalise_parts(unit, flat, whole);
    op({Kernel::reduce_scatter, DType::fp32, flat.group, {all}}, from, {whole}, {update, buffer()},
       Lane::reduce_scatter);
  } else {
    orthogonalise_parts(unit, flat, update);
  }
  pass(Kernel::muon_update, {update, norm}, {stored.parameter});
}

}  // namespace xt
