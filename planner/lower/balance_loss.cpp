// The auxiliary loss of routers: rows of each expert are counted over the layers of a pack, and the
// backward pass of each layer's router adds its gradient and its part of the loss.

#include <algorithm>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Experts that rows are counted of; 0 without the loss.
std::int64_t counted_experts(const OpGraph& graph) {
  for (const Block& block : graph.decoder)
    for (const GraphValue& value : block.values)
      if (value.role == ValueRole::pack_load) return value.shape[0].code;
  return 0;
}

}  // namespace

void Lowering::make_balance_loss() {
  if (counted_experts(graph_) == 0) return;
  build_.draft().batch.balance_loss =
      build_.resident({{1, 1, 1}, DType::fp32, MemoryCategory::other, Space::device});
}

void Lowering::clear_balance_loss() {
  const BufferId loss = build_.draft().batch.balance_loss;
  if (loss != no_buffer)
    op(Kernel::fill_zero, origin(Phase::prepare, StepPart::scalars), {1}, {}, {loss});
}

void Lowering::clear_pack_loads() {
  if (build_.draft().batch.balance_loss == no_buffer) return;
  const std::int64_t n = counted_experts(graph_);
  for (MicroBatch& micro_batch : micro_batches_) {
    micro_batch.load =
        build_.transient({{n, 1, 1}, DType::fp32, MemoryCategory::other, Space::device});
    op({Kernel::fill_zero, DType::fp32, Group::none, {n}},
       origin(Phase::forward, StepPart::balance_loss), {}, {micro_batch.load});
  }
}

void Lowering::sum_balance_loss() {
  const BufferId loss = build_.draft().batch.balance_loss;
  if (loss == no_buffer) return;
  op({Kernel::all_reduce, DType::fp32, Group::world, {1}},
     origin(Phase::optimizer, StepPart::balance_loss), {}, {loss}, Lane::reduce_scatter);
}

}  // namespace xt
