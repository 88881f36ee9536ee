#include "costmodel/models/fp8_products.h"

#include <map>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

bool is_forward(Kernel kernel) {
  return kernel == Kernel::matmul || kernel == Kernel::grouped_matmul;
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

  OpGraph& graph_;
  Block& block_;
  std::map<ValueId, Quantised> inputs_;     ///< of a linear layer, by its weight
  std::map<ValueId, Quantised> gradients_;  ///< of its output, by its weight
};

std::vector<GraphOp> Fp8Products::rewritten(const std::vector<GraphOp>& ops) {
  std::vector<GraphOp> result;
  for (const GraphOp& op : ops) {
    if (is_linear(graph_, op)) {
      rewrite(op, result);
    } else {
      result.push_back(op);
    }
  }
  return result;
}

Quantised Fp8Products::quantised(const GraphOp& op, ValueId value, std::vector<GraphOp>& to) {
  const auto copy = [&] {
    const std::int64_t moved = width(graph_.dtype) + width(DType::fp8);
    GraphOp cast = pass_over(graph_, block_, value, moved);
    cast.part = op.part;
    cast.outputs = {like(block_, value, DType::fp8)};
    to.push_back(std::move(cast));
    return to.back().outputs.front();
  };
  const ValueId by_row = copy();
  return {by_row, copy()};
}

void Fp8Products::rewrite(GraphOp op, std::vector<GraphOp>& to) {
  GraphParameter& of = parameter_of(block_, op);
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
