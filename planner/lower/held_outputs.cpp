// What a model's forward pass returns beside the loss: logits, and keys and values of all layers,
// recomputed or not. A script that keeps what it got until its backward pass is through keeps them
// with it.
//
// Source: Hugging Face transformers 4.35, modeling_llama.py: use_cache is on unless the model's own
// checkpointing is; DLRover (intelligent-machine-learning/dlrover, 11bf2fbf),
// atorch/examples/llama2/fsdp_llama2.py, and
// atorch/auto/opt_lib/checkpoint_optimization.py, which checkpoints from outside

#include "planner/lower/lowering.h"

namespace xt {

// Keys are turned where their product wrote them.
void Lowering::hold_keys(const PreparedBlock& block, std::span<const Values> values) {
  if (!rules_.holds_outputs) return;
  for (const std::string_view part : {"k_proj", "v_proj"}) {
    ValueId last = no_value;
    for (const GraphOp& op : block.graph->forward)
      if (graph_.parts[op.part] == part) last = op.outputs.front();
    if (last == no_value) continue;
    for (const Values& of : values) outputs_.push_back(of[static_cast<std::size_t>(last)]);
  }
}

void Lowering::hold_outputs() {
  const auto last = OpId(static_cast<std::uint32_t>(build_.n_ops() - 1));
  for (const BufferId buffer : outputs_) build_.hold(buffer, last);
  outputs_.clear();
}

}  // namespace xt
