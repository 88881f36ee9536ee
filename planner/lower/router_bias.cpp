// The bias by which a router chooses experts: every rank has it whole, no gradient reaches it, and
// it learns at the end of a step by how many rows each expert got on all ranks.
//
// Source: Wang et al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664, algorithm 1

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

const GraphValue* router_bias_of(const Block& block) {
  const auto found = std::ranges::find(block.values, ValueRole::router_bias, &GraphValue::role);
  return found == block.values.end() ? nullptr : &*found;
}

}  // namespace

void Lowering::make_router_bias(const FsdpUnit& unit, const std::string& name) {
  if (unit.layer < 0 || !rules_.is_executed) return;
  const GraphValue* value = router_bias_of(*unit.block->graph);
  if (value == nullptr) return;
  const std::int64_t n = value->shape[0].code;
  const auto resident = [&](MemoryCategory category) {
    return build_.resident({{n, 1, 1}, DType::fp32, category, Space::device});
  };
  std::vector<Flat>& flats = build_.draft().flats;
  const auto index = static_cast<std::int32_t>(flats.size());
  const BufferId bias = resident(MemoryCategory::parameters);
  router_biases_.push_back({unit.layer, n, bias, resident(MemoryCategory::other)});
  flats.push_back({name + " router bias", Group::none, n, bias, no_buffer, no_buffer, unit.layer});
  build_.draft().placements.push_back(
      {fmt::format("model.layers.{}.mlp.gate.e_score_correction_bias", unit.layer),
       {n, 1, 1},
       1,
       -1,
       false,
       index,
       0});
}

RouterBias Lowering::router_bias(std::int16_t layer) const {
  const auto found = std::ranges::find(router_biases_, layer, &RouterBias::layer);
  XT_CHECK(found != router_biases_.end(), layer);
  return *found;
}

void Lowering::clear_expert_loads() {
  for (const RouterBias& of : router_biases_)
    op(Kernel::fill_zero, origin(Phase::prepare, StepPart::router_bias, of.layer), {of.experts}, {},
       {of.load});
}

void Lowering::update_router_biases() {
  for (const RouterBias& of : router_biases_) {
    const Origin from = origin(Phase::optimizer, StepPart::router_bias, of.layer);
    op({Kernel::all_reduce, DType::fp32, Group::world, {of.experts}}, from, {}, {of.load},
       Lane::reduce_scatter);
    op({Kernel::update_router_bias, DType::fp32, Group::none, {of.experts}}, from,
       {of.load, build_.draft().batch.grad_norm}, {of.bias});
  }
}

}  // namespace xt
