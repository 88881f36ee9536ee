#include "costmodel/models/stacked_heads.h"

#include <algorithm>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

auto first_of(std::vector<GraphOp>& ops, Kernel kernel) {
  return std::ranges::find(ops, kernel, [](const GraphOp& op) { return op.work.kernel; });
}

std::int64_t elements(const Block& block, ValueId id) {
  const auto& shape = block.values[at(id)].shape;
  return shape[0].code * shape[1].code * shape[2].code;
}

// A pass that reads and writes `n` elements.
GraphOp copy(const OpGraph& graph, std::uint8_t part, std::int64_t n, std::vector<ValueId> inputs,
             std::vector<ValueId> outputs) {
  GraphOp op;
  op.work = {Kernel::cast, graph.dtype, Group::none, {}};
  op.work.extents = {n, 2 * width(graph.dtype)};
  op.part = part;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

struct Heads {
  ValueId q, k, v;
};

// Whether `id` is turned as it is, not put together from what is.
bool is_turned(const Block& block, ValueId id) {
  return std::ranges::any_of(block.forward, [&](const GraphOp& op) {
    return op.work.kernel == Kernel::rope && std::ranges::find(op.outputs, id) != op.outputs.end();
  });
}

void read_instead(std::vector<GraphOp>& ops, const Heads& old, const Heads& copies) {
  for (GraphOp& op : ops) {
    const Kernel kernel = op.work.kernel;
    if (kernel != Kernel::attention && kernel != Kernel::attention_backward &&
        kernel != Kernel::rope)
      continue;
    for (std::vector<ValueId>* ids : {&op.inputs, &op.outputs}) {
      std::ranges::replace(*ids, old.k, copies.k);
      std::ranges::replace(*ids, old.v, copies.v);
    }
  }
}

}  // namespace

// Gradients are stacked again before the product's backward pass, behind which the stack is left.
void stack_heads(const OpGraph& graph, Block& block) {
  const auto attention = first_of(block.forward, Kernel::attention);
  const auto turn = first_of(block.forward, Kernel::rope);
  if (attention == block.forward.end() || turn == block.forward.end()) return;
  const Heads heads{attention->inputs[0], attention->inputs[1], attention->inputs[2]};
  if (!is_turned(block, heads.q) || !is_turned(block, heads.k)) return;
  const std::int64_t keys = 2 * elements(block, heads.k);
  const std::int64_t all = keys + elements(block, heads.q);
  const bool are_stacked = elements(block, heads.q) == elements(block, heads.k);
  const Heads copies{heads.q, like(block, heads.k, graph.dtype), like(block, heads.v, graph.dtype)};
  const ValueId joined = like(block, heads.k, graph.dtype);
  block.values[at(joined)].shape = {keys, 1, 1};

  const auto backward = first_of(block.backward, Kernel::attention_backward);
  const Heads d{backward->outputs[0], backward->outputs[1], backward->outputs[2]};
  std::vector<ValueId> stacked = {d.q, d.k, d.v};
  if (are_stacked) stacked.insert(stacked.end(), {heads.k, heads.v});
  const auto turned = std::find_if(block.backward.rbegin(), block.backward.rend(), [](auto& op) {
    return op.work.kernel == Kernel::rope_backward;
  });
  const std::uint8_t part = turn->part;
  read_instead(block.forward, heads, copies);
  read_instead(block.backward, heads, copies);
  block.backward.insert(turned.base(), copy(graph, part, 2 * all, stacked, {d.q}));
  block.forward.insert(turn, {copy(graph, part, all, {heads.q, heads.k, heads.v}, {heads.q}),
                              copy(graph, part, keys, {heads.k, heads.v}, {joined}),
                              copy(graph, part, keys, {joined}, {copies.k, copies.v})});
}

}  // namespace xt
