#include "costmodel/models/wide_norms.h"

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

// Widens or narrows what `norm` reads or writes.
GraphOp conversion(const OpGraph& graph, const Block& block, const GraphOp& norm, ValueId from,
                   ValueId to) {
  GraphOp pass = pass_over(graph, block, from, width(graph.dtype) + width(DType::fp32));
  pass.part = norm.part;
  pass.outputs = {to};
  return pass;
}

std::vector<GraphOp> widened(const OpGraph& graph, Block& block, const std::vector<GraphOp>& ops) {
  std::vector<GraphOp> written;
  for (const GraphOp& op : ops) {
    const bool is_forward = op.work.kernel == Kernel::rms_norm;
    if (!is_forward && op.work.kernel != Kernel::rms_norm_backward) {
      written.push_back(op);
      continue;
    }
    GraphOp norm = op;
    norm.work.dtype = DType::fp32;
    const std::size_t n_wide = is_forward ? 1 : 2;  // x, or dy and x
    for (std::size_t i = 0; i < n_wide; ++i) {
      norm.inputs[i] = like(block, op.inputs[i], DType::fp32);
      written.push_back(conversion(graph, block, op, op.inputs[i], norm.inputs[i]));
    }
    norm.outputs[0] = like(block, op.outputs[0], DType::fp32);
    written.push_back(norm);
    written.push_back(conversion(graph, block, op, norm.outputs[0], op.outputs[0]));
  }
  return written;
}

}  // namespace

void widen_norms(const OpGraph& graph, Block& block) {
  if (graph.dtype == DType::fp32) return;
  block.forward = widened(graph, block, block.forward);
  block.backward = widened(graph, block, block.backward);
}

}  // namespace xt
