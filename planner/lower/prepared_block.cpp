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

bool is_symbol(Extent extent) { return extent.is_symbol(); }

std::vector<PreparedOp> prepared(const std::vector<GraphOp>& ops, const BlockRules& rules) {
  std::vector<PreparedOp> result(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& extents = ops[i].work.extents;
    result[i].graph = &ops[i];
    result[i].varies =
        std::any_of(extents.begin(), extents.end(), rules.is_executed ? is_symbol : names_layer);
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

// One turn up to each exchange, and the rest.
std::vector<std::size_t> turns_behind(const std::vector<std::size_t>& exchanges,
                                      const std::vector<GraphOp>& ops) {
  std::vector<std::size_t> ends;
  for (const std::size_t exchange : exchanges) ends.push_back(exchange + 1);
  ends.push_back(ops.size());
  return ends;
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
  if (!exchanges.empty()) return turns_behind(exchanges, ops);
  if (!unpermute.empty()) {
    ends = {unpermute.front() + 1, permute.front()};
  }
  ends.push_back(ops.size());
  return ends;
}

constexpr bool is_batch(const GraphOp& op) { return op.work.kernel == Kernel::batched_matmul; }

// Where attention is not fused, all that it does to its scores is of it.
bool is_of_attention(const Block& block, std::string_view part) {
  return part == "attention" && std::any_of(block.forward.begin(), block.forward.end(), is_batch);
}

// Conversions to and from its dtype are of a norm.
bool is_layer_norm(Kernel kernel, std::string_view part) {
  return (kernel == Kernel::rms_norm || kernel == Kernel::layer_norm || kernel == Kernel::cast) &&
         (part == "input_norm" || part == "post_norm");
}

// The first op behind the norm before the ffn, and behind the residual that is added to that norm
// where it is of attention's output.
std::size_t first_of_ffn(const OpGraph& graph, const Block& block) {
  const auto part = [&](std::size_t i) { return graph.parts[block.forward[i].part]; };
  std::size_t first = block.forward.size();
  for (std::size_t i = 0; i < block.forward.size(); ++i)
    if (part(i) == "post_norm" || (i == first && part(i) == "residual")) first = i + 1;
  return first;
}

// Whether the op at `i` writes what attention is for: the last one of it, where it is not fused.
bool writes_attended(const OpGraph& graph, const Block& block, std::size_t i) {
  const auto op = block.forward.begin() + static_cast<std::ptrdiff_t>(i);
  const auto is_part = [&](const GraphOp& of) { return graph.parts[of.part] == "attention"; };
  if (!is_part(*op)) return false;
  if (is_of_attention(block, "attention"))
    return std::none_of(op + 1, block.forward.end(), is_part);
  return kernel_class(op->work.kernel) == KernelClass::attention;
}

constexpr bool gathers_over_tensor_ranks(const GraphOp& op) {
  return op.work.kernel == Kernel::all_gather && op.work.group == Group::tensor;
}

// Whether the results of `op` are dropped; `product` counts the products of the layer before it.
// What tensor ranks gather of a dropped norm is gathered again, what they sum is kept.
//
// Source: torchtitan, torchtitan/models/llama3/infra/parallelize.py, _op_sac_save_list
bool drops(const OpGraph& graph, const Block& block, const GraphOp& op, const RecomputeOps& dropped,
           std::size_t product) {
  const std::string_view part = graph.parts[op.part];
  if (gathers_over_tensor_ranks(op)) return dropped.has(RecomputeOp::norms);
  switch (kernel_class(op.work.kernel)) {
    case KernelClass::matrix:
      return dropped.has(RecomputeOp::products) ||
             (dropped.has(RecomputeOp::every_second_product) && product % 2 == 1);
    case KernelClass::attention:
      return dropped.has(RecomputeOp::attention);
    case KernelClass::memory_bound:
      if (is_of_attention(block, part)) return dropped.has(RecomputeOp::attention);
      if (dropped.has(RecomputeOp::layer_norms) && is_layer_norm(op.work.kernel, part)) return true;
      return dropped.has(part.ends_with("activation") ? RecomputeOp::activations
                                                      : RecomputeOp::norms);
    case KernelClass::grouped_matrix:
      return dropped.has(RecomputeOp::experts) || dropped.has(RecomputeOp::expert_products);
    case KernelClass::host:
      return dropped.has(part.ends_with("activation") ? RecomputeOp::activations
                                                      : RecomputeOp::experts);
    default:
      return dropped.has(RecomputeOp::experts);
  }
}

// What the first op that writes a value is decides whether it is kept.
std::vector<bool> kept_values(const OpGraph& graph, const Block& block, const RecomputeOps& dropped,
                              const BlockRules& rules) {
  std::vector<bool> is_kept(block.values.size(), false), is_written(block.values.size(), false);
  const std::size_t ffn =
      dropped.has(RecomputeOp::ffn) ? first_of_ffn(graph, block) : block.forward.size();
  std::size_t product = 0;
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    const GraphOp& op = block.forward[i];
    const bool is_dropped =
        dropped.is_all() || i >= ffn || drops(graph, block, op, dropped, product);
    const KernelClass of = kernel_class(op.work.kernel);
    if (of == KernelClass::matrix) ++product;
    const bool attends =
        rules.keeps_attended && !dropped.is_all() && writes_attended(graph, block, i);
    for (const ValueId id : op.outputs) {
      if (is_written[at(id)]) continue;
      is_written[at(id)] = true;
      is_kept[at(id)] = !is_dropped || (block.values[at(id)].is_recorded && rules.keeps_recorded) ||
                        (attends && id == op.outputs.front());
    }
  }
  return is_kept;
}

}  // namespace

PreparedBlock prepared(const OpGraph& graph, const Block& block, const ShardRanks& ranks,
                       const RecomputeOps& dropped, const BlockRules& rules) {
  const DType dtype = graph.dtype;
  PreparedBlock result;
  result.graph = &block;
  const bool apart = rules.has_matrices_apart;
  result.layouts = {flat_layout(block, FlatKind::rest, apart, ranks.dense, dtype),
                    flat_layout(block, FlatKind::matrices, apart, ranks.dense, dtype),
                    flat_layout(block, FlatKind::experts, apart, ranks.experts, dtype)};
  result.input = value_of(block, ValueRole::input);
  result.output = value_of(block, ValueRole::output);
  result.input_gradient = value_of(block, ValueRole::input_gradient);
  result.output_gradient = value_of(block, ValueRole::output_gradient);
  result.next_embedding_gradient = value_of(block, ValueRole::next_embedding_gradient);
  result.is_saved = saved_values(block);
  result.is_exchanged = exchanged_values(block);
  result.forward = prepared(block.forward, rules);
  result.backward = prepared(block.backward, rules);
  result.forward_turns = rules.is_executed
                             ? turns_behind(exchanges_of_tokens(block.forward), block.forward)
                             : forward_turns(block.forward);
  result.backward_turns = backward_turns(block.backward);
  result.is_kept = kept_values(graph, block, dropped, rules);
  std::vector<bool> again = recomputed_ops(block, result.is_kept);
  // Who runs whole layers again runs the ffn's last product too, which no backward pass reads.
  if (dropped.has(RecomputeOp::ffn) && !rules.keeps_recorded)
    std::fill(again.begin() + static_cast<std::ptrdiff_t>(first_of_ffn(graph, block)), again.end(),
              true);
  for (std::size_t i = 0; i < again.size(); ++i) {
    result.forward[i].is_recomputed = again[i];
    if (!again[i]) continue;
    for (const ValueId id : block.forward[i].inputs)
      if (result.is_kept[at(id)]) result.is_saved[at(id)] = true;
  }
  return result;
}

}  // namespace xt
