#include "planner/lower/prepared_block.h"

#include <algorithm>

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

ValueId value_of(const Block& block, ValueRole role) {
  for (std::size_t i = 0; i < block.values.size(); ++i)
    if (block.values[i].role == role) return static_cast<ValueId>(i);
  return no_value;
}

bool names_layer(Extent extent) {
  return extent.is_symbol() &&
         static_cast<SymbolKind>(extent.symbol()) == SymbolKind::rows_received;
}

std::vector<PreparedOp> prepared(const std::vector<GraphOp>& ops) {
  std::vector<PreparedOp> result(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& extents = ops[i].work.extents;
    result[i].graph = &ops[i];
    result[i].varies = std::any_of(extents.begin(), extents.end(), names_layer);
  }
  return result;
}

std::vector<bool> saved_values(const Block& block) {
  std::vector<bool> is_saved(block.values.size(), false);
  for (const GraphOp& op : block.backward)
    for (const ValueId id : op.inputs) is_saved[at(id)] = true;
  for (std::size_t i = 0; i < block.values.size(); ++i)
    if (block.values[i].is_recorded) is_saved[i] = true;
  return is_saved;
}

}  // namespace

PreparedBlock prepared(const Block& block, std::int64_t dense_ranks, std::int64_t expert_ranks) {
  PreparedBlock result;
  result.graph = &block;
  result.layouts = {flat_layout(block, false, dense_ranks), flat_layout(block, true, expert_ranks)};
  result.input = value_of(block, ValueRole::input);
  result.output = value_of(block, ValueRole::output);
  result.input_gradient = value_of(block, ValueRole::input_gradient);
  result.output_gradient = value_of(block, ValueRole::output_gradient);
  result.is_saved = saved_values(block);
  result.forward = prepared(block.forward);
  result.backward = prepared(block.backward);
  const std::vector<bool> again = recomputed_ops(block);
  for (std::size_t i = 0; i < again.size(); ++i) result.forward[i].is_recomputed = again[i];
  return result;
}

}  // namespace xt
