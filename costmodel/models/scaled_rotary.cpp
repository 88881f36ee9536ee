#include "costmodel/models/scaled_rotary.h"

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

// A pass of `calls` kernels that moves `bytes` for each of `n` numbers.
GraphOp pass(const OpGraph& graph, const GraphOp& from, std::int64_t n, std::int64_t bytes,
             std::int64_t calls) {
  GraphOp op;
  op.work = {Kernel::cast, graph.dtype, Group::none, {}};
  op.work.extents = {n, bytes, calls};
  op.part = from.part;
  return op;
}

// Six kernels of fp32 angles, of which the last two leave numbers of the products' dtype.
GraphOp pass_over_table(const OpGraph& graph, const GraphOp& from, ValueId scaled) {
  constexpr std::int64_t wide = width(DType::fp32);
  const std::int64_t n = from.work.extents[0].code * from.work.extents[2].code;
  GraphOp op = pass(graph, from, n, 2 * (5 * wide + width(graph.dtype)), 6);
  op.inputs = from.inputs;
  op.outputs = {scaled};
  return op;
}

void rewrite(const OpGraph& graph, Block& block, std::vector<GraphOp>& ops) {
  const std::int64_t narrow = width(graph.dtype);
  std::vector<GraphOp> written;
  for (const GraphOp& op : ops) {
    const bool is_forward = op.work.kernel == Kernel::rope;
    const bool is_whole = op.work.extents[3].code == 0;
    if ((!is_forward && op.work.kernel != Kernel::rope_backward) || !is_whole) {
      written.push_back(op);
      continue;
    }
    const ValueId x = op.outputs[0], turned = like(block, x, graph.dtype);
    const std::int64_t n =
        op.work.extents[0].code * op.work.extents[1].code * op.work.extents[2].code;
    if (is_forward) {
      GraphOp table = pass_over_table(graph, op, like(block, op.inputs[0], graph.dtype));
      written.push_back(std::move(table));
    }
    // Of twelve and of ten numbers that are read or written for each of x, the last copy has two.
    GraphOp turn = pass(graph, op, n, (is_forward ? 10 : 8) * narrow, is_forward ? 5 : 4);
    turn.inputs = {x};
    turn.outputs = {turned};
    written.push_back(std::move(turn));
    GraphOp copy = pass(graph, op, n, 2 * narrow, 1);
    copy.inputs = {turned};
    copy.outputs = {x};
    written.push_back(std::move(copy));
  }
  ops = std::move(written);
}

}  // namespace

void use_unfused_scaled_rotary(const OpGraph& graph, Block& block) {
  if (graph.constants.rope_scaling.attention_factor == 1) return;
  rewrite(graph, block, block.forward);
  rewrite(graph, block, block.backward);
}

}  // namespace xt
