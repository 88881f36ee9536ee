// What autograd is given in place of gradients that products have added to their sums: a tensor
// that nothing reads, in 16 bits. Transformer Engine has one for all weights of a shape, which it
// never frees; Megatron's own linear layer, of which only the head is, makes one for each product.
//
// Source: Transformer Engine 2.11, pytorch/module/base.py, get_dummy_wgrad; Megatron-LM,
// core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication

#include <map>
#include <set>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

using WeightShape = std::array<std::int64_t, 2>;

// Rows and columns of the weights of a layer. Products of one input are of one weight there, as
// those of queries, keys and values are; each expert has a weight of its own.
void add_shapes(const OpGraph& graph, const Block& block, std::set<WeightShape>& shapes) {
  std::map<ValueId, WeightShape> by_input;
  std::set<ValueId> counted;
  for (const GraphOp& op : block.forward) {
    const Kernel kernel = op.work.kernel;
    if (kernel != Kernel::matmul && kernel != Kernel::grouped_matmul) continue;
    if (graph.parts[op.part] == "router" || !counted.insert(op.inputs[1]).second) continue;
    const std::int64_t rows = op.work.extents[1].code, columns = op.work.extents[2].code;
    if (kernel == Kernel::grouped_matmul) {
      shapes.insert({rows, columns});
    } else {
      WeightShape& of = by_input[op.inputs[0]];
      of = {of[0] + rows, columns};
    }
  }
  for (const auto& [input, shape] : by_input) shapes.insert(shape);
}

}  // namespace

void Lowering::make_stand_ins() {
  if (!rules_.keeps_stand_ins || !keeps_gradients()) return;
  std::set<WeightShape> shapes;
  for (const std::uint16_t layer : layers_) add_shapes(graph_, graph_.decoder[layer], shapes);
  for (const auto& [rows, columns] : shapes)
    build_.resident({{rows, columns, 1}, graph_.dtype, MemoryCategory::workspace, Space::device});
}

// The product for the gradient of lm_head's weight.
OpId Lowering::head_gradient_product(Kernel kernel, const Origin& from, std::int64_t rows,
                                     BufferId d_logits, BufferId hidden, BufferId gradient) {
  const std::int64_t V = graph_.vocabulary, E = graph_.width;
  const Work work{kernel, graph_.dtype, Group::none, {rows, V, E}};
  workspaces_.clear();
  rules_.workspaces(work, workspaces_);
  if (rules_.keeps_stand_ins && keeps_gradients()) workspaces_.push_back({{V, E, 1}, graph_.dtype});
  const std::array<BufferId, 2> inputs{d_logits, hidden};
  return build_.add({work, Lane::compute, from, inputs, std::span(&gradient, 1), workspaces_, {}});
}

}  // namespace xt
