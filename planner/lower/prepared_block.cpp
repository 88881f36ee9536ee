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

std::vector<bool> exchanged_values(const Block& block) {
  std::vector<bool> is_exchanged(block.values.size(), false);
  for (const auto* ops : {&block.forward, &block.backward})
    for (const GraphOp& op : *ops)
      for (const ValueId id : op.outputs) is_exchanged[at(id)] = op.lane == Lane::expert;
  return is_exchanged;
}

std::vector<std::size_t> positions(const std::vector<GraphOp>& ops, Kernel kernel) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].work.kernel == kernel) found.push_back(i);
  return found;
}

// What brings tokens to experts on other ranks, and back.
std::vector<std::size_t> exchanges_of_tokens(const std::vector<GraphOp>& ops) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Work& work = ops[i].work;
    const bool carries_tokens = work.kernel == Kernel::all_to_all ||
                                work.kernel == Kernel::all_gather ||
                                work.kernel == Kernel::reduce_scatter;
    if (carries_tokens && work.group == Group::expert) found.push_back(i);
  }
  return found;
}

// Attention and permutation; dispatch and experts; combination on the link; the rest.
//
// Source: XTuner V1 (InternLM/xtuner, b934f4620), _micro_batch_forward of the MoE decoder layer
std::vector<std::size_t> forward_turns(const std::vector<GraphOp>& ops) {
  std::vector<std::size_t> ends;
  const auto permute = positions(ops, Kernel::permute);
  const auto unpermute = positions(ops, Kernel::unpermute);
  const auto counts = positions(ops, Kernel::exchange_counts);
  const auto exchanges = exchanges_of_tokens(ops);
  if (!exchanges.empty()) {
    const bool sums_after = !unpermute.empty() && unpermute.front() > exchanges.back();
    ends = {counts.empty() ? exchanges.front() : counts.front(), exchanges.back()};
    ends.push_back(sums_after ? unpermute.front() : exchanges.back() + 1);
  } else if (!permute.empty()) {
    ends = {permute.front() + 1, unpermute.front()};
  }
  ends.push_back(ops.size());
  return ends;
}

// The mirror image: up to the exchange that undoes the combination; up to the one that undoes the
// dispatch; the rest.
std::vector<std::size_t> backward_turns(const std::vector<GraphOp>& ops) {
  std::vector<std::size_t> ends;
  const auto unpermute = positions(ops, Kernel::unpermute_backward);
  const auto permute = positions(ops, Kernel::permute_backward_add);
  const auto exchanges = exchanges_of_tokens(ops);
  if (!exchanges.empty()) {
    for (const std::size_t exchange : exchanges) ends.push_back(exchange + 1);
  } else if (!unpermute.empty()) {
    ends = {unpermute.front() + 1, permute.front()};
  }
  ends.push_back(ops.size());
  return ends;
}

}  // namespace

PreparedBlock prepared(const Block& block, const ShardRanks& ranks, DType dtype) {
  PreparedBlock result;
  result.graph = &block;
  result.layouts = {flat_layout(block, false, ranks.dense, dtype),
                    flat_layout(block, true, ranks.experts, dtype)};
  result.input = value_of(block, ValueRole::input);
  result.output = value_of(block, ValueRole::output);
  result.input_gradient = value_of(block, ValueRole::input_gradient);
  result.output_gradient = value_of(block, ValueRole::output_gradient);
  result.is_saved = saved_values(block);
  result.is_exchanged = exchanged_values(block);
  result.forward = prepared(block.forward);
  result.backward = prepared(block.backward);
  result.forward_turns = forward_turns(block.forward);
  result.backward_turns = backward_turns(block.backward);
  const std::vector<bool> again = recomputed_ops(block);
  for (std::size_t i = 0; i < again.size(); ++i) result.forward[i].is_recomputed = again[i];
  return result;
}

}  // namespace xt
