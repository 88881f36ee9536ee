#include "costmodel/models/heads_first.h"

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

class HeadsFirst {
 public:
  HeadsFirst(const OpGraph& graph, Block& block) : graph_(graph), block_(block) {}

  void run() {
    block_.forward = rewritten(block_.forward);
    block_.backward = rewritten(block_.backward);
  }

 private:
  std::vector<GraphOp> rewritten(const std::vector<GraphOp>& ops);
  // `tensors` of the width of `value` read or written by as many kernels as `calls`.
  void pass(const GraphOp& from, ValueId value, std::int64_t tensors, std::int64_t calls = 1) {
    written_.push_back(pass_over(graph_, block_, value, tensors * width(graph_.dtype), calls));
    written_.back().part = from.part;
    written_.back().outputs = {value};
  }

  const OpGraph& graph_;
  Block& block_;
  std::vector<GraphOp> written_;
};

std::vector<GraphOp> HeadsFirst::rewritten(const std::vector<GraphOp>& ops) {
  constexpr std::int64_t of_transpose = 2, of_turn = 2 + 2 + 2 + 3, kernels = 4;
  written_.clear();
  for (const GraphOp& op : ops) {
    const Kernel kernel = op.work.kernel;
    if (kernel == Kernel::rope || kernel == Kernel::rope_backward) {
      pass(op, op.outputs[0], of_turn, kernels);
      written_.back().inputs.insert(written_.back().inputs.begin(), op.inputs[0]);
      continue;
    }
    const bool is_backward = kernel == Kernel::attention_backward;
    if (kernel != Kernel::attention && !is_backward) {
      written_.push_back(op);
      continue;
    }
    // Forward its three inputs, backward the gradient of its output.
    for (std::size_t i = 0; i < (is_backward ? 1U : 3U); ++i) pass(op, op.inputs[i], of_transpose);
    written_.push_back(op);
    for (std::size_t i = 0; i < (is_backward ? 3U : 1U); ++i) pass(op, op.outputs[i], of_transpose);
  }
  return std::move(written_);
}

}  // namespace

void put_heads_first(const OpGraph& graph, Block& block) { HeadsFirst(graph, block).run(); }

}  // namespace xt
