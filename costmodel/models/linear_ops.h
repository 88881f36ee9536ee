#pragma once

// What passes over a block ask of the products of its linear layers. Private to models/.

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "costmodel/ir/op_graph.h"

namespace xt {

/// Position of a value in its block.
inline std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

/// Whether `op` is a product of a linear layer or of experts; the router's stays as it is.
inline bool is_linear(const OpGraph& graph, const GraphOp& op) {
  const KernelClass of = kernel_class(op.work.kernel);
  return (of == KernelClass::matrix || of == KernelClass::grouped_matrix) &&
         graph.parts[op.part] != "router";
}

/// Whether a product gives the gradient of a weight.
inline bool is_of_weight(Kernel kernel) {
  return kernel == Kernel::matmul_weight_backward ||
         kernel == Kernel::grouped_matmul_weight_backward;
}

/// Whether `op` is `kernel` over the ranks that share products.
inline bool is_over_tensor_ranks(const GraphOp& op, Kernel kernel) {
  return op.work.kernel == kernel && op.work.group == Group::tensor;
}

/// The parameter whose weight or gradient a product touches.
inline GraphParameter& parameter_of(Block& block, const GraphOp& op) {
  const ValueId touched = is_of_weight(op.work.kernel) ? op.outputs[0] : op.inputs[1];
  const auto found = std::ranges::find_if(block.parameters, [&](const GraphParameter& of) {
    return of.value == touched || of.gradient == touched;
  });
  XT_CHECK(found != block.parameters.end(), at(touched));
  return *found;
}

/// A new value of `block` like `value`, in `dtype`.
inline ValueId like(Block& block, ValueId value, DType dtype) {
  GraphValue copy = block.values[at(value)];
  copy.dtype = dtype;
  copy.role = ValueRole::activation;
  copy.is_recorded = false;
  block.values.push_back(copy);
  return static_cast<ValueId>(block.values.size() - 1);
}

/// A pass over `value` that moves `bytes` for each of its elements, by as many kernels as `calls`.
inline GraphOp pass_over(const OpGraph& graph, const Block& block, ValueId value,
                         std::int64_t bytes, std::int64_t calls = 1) {
  const GraphValue& of = block.values[at(value)];
  // Rows may be a symbol, so they are an extent of their own and a row's bytes the other.
  XT_CHECK(!of.shape[1].is_symbol() && !of.shape[2].is_symbol());
  GraphOp pass;
  pass.work = {Kernel::cast, graph.dtype, Group::none, {}};
  pass.work.extents = {of.shape[0], of.shape[1].code * of.shape[2].code * bytes};
  if (calls > 1) pass.work.extents[2] = calls;
  pass.inputs = {value};
  return pass;
}

}  // namespace xt
