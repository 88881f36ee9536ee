// Updated weights where a rank updates whole parameters: each rank that has some sends them to all
// others, one message a rank. A ring hands a message on from rank to rank, so that the time of an
// update grows with the square of the ranks as long as there are parameters for all of them.
//
// Source: InternEvo 0.2, solver/optimizer/hybrid_zero_optim.py, _partition_param_list, which gives
// the largest parameter left to the rank that has least, and broadcast_params, whose messages wait
// for the update and for nothing but one another

#include <algorithm>
#include <functional>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Elements of each of `ranks`, the largest parameter first, each to the rank that has least.
std::vector<std::int64_t> dealt(std::vector<std::int64_t> parameters, std::int64_t ranks) {
  std::ranges::sort(parameters, std::greater());
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks));
  for (const std::int64_t elements : parameters) *std::ranges::min_element(of_rank) += elements;
  std::erase(of_rank, 0);
  return of_rank;
}

}  // namespace

// A message stands on one unit's weights, whatever parameters it carries.
void Lowering::broadcast_weights() {
  std::vector<std::int64_t> parameters;
  std::vector<const UnitFlat*> split;
  for (const FsdpUnit& unit : units_)
    for (const UnitFlat& flat : unit.flats) {
      if (!is_split(flat)) continue;
      split.push_back(&flat);
      for (const std::uint16_t i : flat.layout->parameters)
        parameters.push_back(unit.block->graph->parameters[i].elements);
    }
  if (split.empty()) return;
  const Group group = split.front()->group;
  std::size_t next = 0;
  for (const std::int64_t elements : dealt(std::move(parameters), group_size(group))) {
    const BufferId weights = split[next++ % split.size()]->weights;
    op({Kernel::broadcast, graph_.dtype, group, {elements}},
       origin(Phase::optimizer, StepPart::broadcast), {}, {weights}, Lane::all_gather);
  }
}

}  // namespace xt
