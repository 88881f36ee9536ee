#include "costmodel/models/wide_residuals.h"

#include <map>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

bool crosses_blocks(const GraphValue& value) {
  return value.role == ValueRole::input || value.role == ValueRole::output ||
         value.role == ValueRole::input_gradient || value.role == ValueRole::output_gradient;
}

void widen_sums(const OpGraph& graph, Block& block, std::vector<GraphOp>& ops) {
  for (GraphOp& op : ops) {
    if (graph.parts[op.part] != "residual") continue;
    op.work.dtype = DType::fp32;
    for (const ValueId id : op.outputs) block.values[at(id)].dtype = DType::fp32;
  }
}

// Each wide operand is narrowed once, before the first product that reads it.
std::vector<GraphOp> with_narrow_operands(const OpGraph& graph, Block& block,
                                          const std::vector<GraphOp>& ops) {
  std::vector<GraphOp> written;
  std::map<ValueId, ValueId> narrow;
  for (GraphOp op : ops) {
    if (kernel_class(op.work.kernel) == KernelClass::matrix)
      for (ValueId& id : op.inputs) {
        if (block.values[at(id)].dtype != DType::fp32) continue;
        const auto [found, is_new] = narrow.try_emplace(id);
        if (is_new) {
          found->second = like(block, id, graph.dtype);
          written.push_back(pass_over(graph, block, id, width(graph.dtype) + width(DType::fp32)));
          written.back().part = op.part;
          written.back().outputs = {found->second};
        }
        id = found->second;
      }
    written.push_back(std::move(op));
  }
  return written;
}

}  // namespace

void widen_residuals(const OpGraph& graph, Block& block) {
  if (graph.dtype == DType::fp32) return;
  for (GraphValue& value : block.values)
    if (crosses_blocks(value)) value.dtype = DType::fp32;
  widen_sums(graph, block, block.forward);
  widen_sums(graph, block, block.backward);
  block.forward = with_narrow_operands(graph, block, block.forward);
  block.backward = with_narrow_operands(graph, block, block.backward);
}

}  // namespace xt
