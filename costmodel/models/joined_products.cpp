#include "costmodel/models/joined_products.h"

#include <algorithm>
#include <array>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

constexpr std::array<std::string_view, 3> projections = {"q_proj", "k_proj", "v_proj"};

// What a product gives.
enum class Gives : std::uint8_t { outputs, inputs, weights };

bool gives(Kernel kernel, Gives what) {
  switch (what) {
    case Gives::outputs:
      return kernel == Kernel::matmul;
    case Gives::inputs:
      return kernel == Kernel::matmul_input_backward || kernel == Kernel::matmul_input_backward_add;
    case Gives::weights:
      return kernel == Kernel::matmul_weight_backward;
  }
  return false;
}

// The value that all of the products share.
ValueId shared(const GraphOp& op, Gives what) {
  if (what == Gives::inputs) return op.outputs[0];
  return op.inputs[what == Gives::outputs ? 0 : 1];
}

// Positions of the three products; none where one is not there or shares nothing with the others.
std::vector<std::size_t> found(const OpGraph& graph, const std::vector<GraphOp>& ops, Gives what) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (result.size() < projections.size() && gives(ops[i].work.kernel, what) &&
        graph.parts[ops[i].part] == projections[result.size()])
      result.push_back(i);
  const bool is_whole =
      result.size() == projections.size() && std::ranges::all_of(result, [&](std::size_t i) {
        return shared(ops[i], what) == shared(ops[result.front()], what);
      });
  return is_whole ? result : std::vector<std::size_t>();
}

// One op for all three: operands of one role stand beside each other.
GraphOp joined(const std::vector<GraphOp>& ops, const std::vector<std::size_t>& of, Gives what) {
  GraphOp op = ops[of.front()];
  op.inputs.clear();
  std::vector<ValueId> seconds, biases;
  for (const std::size_t i : of) {
    const GraphOp& each = ops[i];
    if (what != Gives::outputs) op.inputs.push_back(each.inputs[0]);
    if (what != Gives::weights) seconds.push_back(each.inputs[1]);
    biases.insert(biases.end(), each.inputs.begin() + 2, each.inputs.end());
    if (i == of.front()) continue;
    op.work.extents[1] = op.work.extents[1].code + each.work.extents[1].code;
    if (what != Gives::inputs) op.outputs.push_back(each.outputs[0]);
  }
  if (what != Gives::inputs) seconds.insert(seconds.begin(), shared(ops[of.front()], what));
  if (what == Gives::weights) {
    op.inputs.insert(op.inputs.end(), seconds.begin(), seconds.end());
    return op;
  }
  op.inputs.insert(op.inputs.end(), seconds.begin(), seconds.end());
  op.inputs.insert(op.inputs.end(), biases.begin(), biases.end());
  return op;
}

// Forward, what is shared is there before the first of them; backward, all that they read and write
// is there at the last.
void join(const OpGraph& graph, std::vector<GraphOp>& ops, Gives what) {
  const std::vector<std::size_t> of = found(graph, ops, what);
  if (of.empty()) return;
  ops[what == Gives::outputs ? of.front() : of.back()] = joined(ops, of, what);
  const auto gone = what == Gives::outputs ? std::array{of[2], of[1]} : std::array{of[1], of[0]};
  for (const std::size_t i : gone) ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
}

// Copies what the product for gradients of inputs reads.
void copy_together(const OpGraph& graph, Block& block) {
  const auto product = std::ranges::find_if(block.backward, [&](const GraphOp& op) {
    return op.work.kernel == Kernel::matmul_input_backward &&
           graph.parts[op.part] == projections.front();
  });
  if (product == block.backward.end()) return;
  GraphOp pass;
  const auto [rows, columns, inner] =
      std::array{product->work.extents[0], product->work.extents[1], product->work.extents[2]};
  pass.work = {Kernel::cast, graph.dtype, Group::none, {}};
  pass.work.extents = {rows, columns.code * 2 * width(product->work.dtype)};
  pass.part = product->part;
  pass.inputs.assign(product->inputs.begin(),
                     product->inputs.begin() + static_cast<std::ptrdiff_t>(projections.size()));
  pass.outputs = {pass.inputs.front()};
  block.backward.insert(product, std::move(pass));
}

// Keys and values of models without rotary angles, which have one weight for all three: GPT-2, MPT,
// BLOOM and Baichuan.
bool is_of_one_weight(const OpGraph& graph, const GraphOp& op) {
  const std::string_view part = graph.parts[op.part];
  return graph.rotary_size == 0 && (part == "k_proj" || part == "v_proj");
}

}  // namespace

void join_projections(const OpGraph& graph, Block& block, bool joins_gradients) {
  const bool is_joined = !found(graph, block.backward, Gives::inputs).empty();
  join(graph, block.forward, Gives::outputs);
  join(graph, block.backward, Gives::inputs);
  join(graph, block.backward, Gives::weights);
  if (is_joined && joins_gradients) copy_together(graph, block);
}

void sum_branches(const OpGraph& graph, Block& block) {
  std::vector<GraphOp> to;
  for (GraphOp op : block.backward) {
    if (op.work.kernel != Kernel::matmul_input_backward_add || !is_linear(graph, op) ||
        is_of_one_weight(graph, op)) {
      to.push_back(std::move(op));
      continue;
    }
    const ValueId sum = op.outputs[0];
    const GraphValue& value = block.values[at(sum)];
    GraphOp add;
    // Rows may be a symbol, and an extent is one number: a pass reads both and writes one.
    add.work = {Kernel::cast, graph.dtype, Group::none, {}};
    add.work.extents = {value.shape[0],
                        3 * value.shape[1].code * value.shape[2].code * width(value.dtype)};
    add.part = op.part;
    op.work.kernel = Kernel::matmul_input_backward;
    op.outputs = {like(block, sum, value.dtype)};
    add.inputs = op.outputs;
    add.outputs = {sum};
    to.push_back(std::move(op));
    to.push_back(std::move(add));
  }
  block.backward = std::move(to);
}

}  // namespace xt
