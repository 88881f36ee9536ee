#include "costmodel/models/fp8_products.h"

#include <algorithm>
#include <map>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

bool is_product(const OpGraph& graph, const GraphOp& op) {
  const KernelClass of = kernel_class(op.work.kernel);
  return (of == KernelClass::matrix || of == KernelClass::grouped_matrix) &&
         graph.parts[op.part] != "router";
}

bool is_forward(Kernel kernel) {
  return kernel == Kernel::matmul || kernel == Kernel::grouped_matmul;
}

bool is_of_weight(Kernel kernel) {
  return kernel == Kernel::matmul_weight_backward ||
         kernel == Kernel::grouped_matmul_weight_backward;
}

// The two quantised copies of an operand.
struct Quantised {
  ValueId by_row{};
  ValueId by_column{};
};

class Fp8Products {
 public:
  Fp8Products(OpGraph& graph, Block& block) : graph_(graph), block_(block) {}

  void run() {
    block_.forward = rewritten(block_.forward);
    block_.backward = rewritten(block_.backward);
  }

 private:
  std::vector<GraphOp> rewritten(const std::vector<GraphOp>& ops);
  void rewrite(GraphOp op, std::vector<GraphOp>& to);
  Quantised quantised(const GraphOp& op, ValueId value, std::vector<GraphOp>& to);
  GraphParameter& parameter(const GraphOp& op);

  OpGraph& graph_;
  Block& block_;
  std::map<ValueId, Quantised> inputs_;     ///< of a linear layer, by its weight
  std::map<ValueId, Quantised> gradients_;  ///< of its output, by its weight
};

std::vector<GraphOp> Fp8Products::rewritten(const std::vector<GraphOp>& ops) {
  std::vector<GraphOp> result;
  for (const GraphOp& op : ops) {
    if (is_product(graph_, op)) {
      rewrite(op, result);
    } else {
      result.push_back(op);
    }
  }
  return result;
}

// The parameter whose weight or gradient `op` touches.
GraphParameter& Fp8Products::parameter(const GraphOp& op) {
  const ValueId touched = is_of_weight(op.work.kernel) ? op.outputs[0] : op.inputs[1];
  const auto found = std::ranges::find_if(block_.parameters, [&](const GraphParameter& of) {
    return of.value == touched || of.gradient == touched;
  });
  XT_CHECK(found != block_.parameters.end(), at(touched));
  return *found;
}

Quantised Fp8Products::quantised(const GraphOp& op, ValueId value, std::vector<GraphOp>& to) {
  const auto copy = [&] {
    GraphValue spec = block_.values[at(value)];
    spec.dtype = DType::fp8;
    spec.role = ValueRole::activation;
    spec.is_recorded = false;
    block_.values.push_back(spec);
    const auto id = static_cast<ValueId>(block_.values.size() - 1);
    GraphOp cast;
    cast.work = {Kernel::cast, graph_.dtype, Group::none, {}};
    // Rows may be a symbol, so they are an extent of their own and a row's bytes the other.
    XT_CHECK(!spec.shape[1].is_symbol() && !spec.shape[2].is_symbol());
    const std::int64_t width_moved = width(graph_.dtype) + width(DType::fp8);
    cast.work.extents = {spec.shape[0], spec.shape[1].code * spec.shape[2].code * width_moved};
    cast.part = op.part;
    cast.inputs = {value};
    cast.outputs = {id};
    to.push_back(std::move(cast));
    return id;
  };
  const ValueId by_row = copy();
  return {by_row, copy()};
}

void Fp8Products::rewrite(GraphOp op, std::vector<GraphOp>& to) {
  GraphParameter& of = parameter(op);
  of.is_fp8 = true;
  op.work.dtype = DType::fp8;
  auto& known = is_forward(op.work.kernel) ? inputs_ : gradients_;
  if (!known.contains(of.value)) known[of.value] = quantised(op, op.inputs[0], to);
  op.inputs[0] = is_of_weight(op.work.kernel) ? known[of.value].by_column : known[of.value].by_row;
  if (is_of_weight(op.work.kernel)) op.inputs[1] = inputs_.at(of.value).by_column;
  to.push_back(std::move(op));
}

}  // namespace

void use_fp8_products(OpGraph& graph, Block& block) { Fp8Products(graph, block).run(); }

}  // namespace xt
