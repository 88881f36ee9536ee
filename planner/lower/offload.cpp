// What a chunk of a pipeline stage keeps for its backward pass, in host memory between its passes:
// so large a share of its bytes, tensors in the order in which the forward pass has them, the last
// one in part. Copies are sections of their own, behind which the stage runs other passes. The
// chunk that ends the model keeps all, since its backward pass follows at once. Small tensors,
// which the engine leaves on the device below 1 MiB, are taken for part of the bytes that are
// shared.
//
// Source: Megatron-Kwai (kwai/Megatron-Kwai, 6c1ff864), core/pipeline_parallel/offload.py,
// ActivationGroup, and schedules.py; Yuan et al. 2024, "Accelerating the Training of Large Language
// Models using Efficient Activation Rematerialization and Optimal Hybrid Parallelism", USENIX ATC

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Whether a layer needs its input after its forward pass.
bool reads_input_again(const PreparedBlock& block, bool is_recomputed) {
  if (block.is_saved[static_cast<std::size_t>(block.input)]) return true;
  return is_recomputed && std::ranges::any_of(block.forward, [&](const PreparedOp& op) {
           return op.is_recomputed && std::ranges::count(op.graph->inputs, block.input) > 0;
         });
}

}  // namespace

bool Lowering::offloads(const ChunkLayers& chunk) const {
  return strategy_.offload_share > 0 && strategy_.gradient_accumulation > 1 && !ends_model(chunk) &&
         chunk.begin < chunk.end;
}

void Lowering::choose_offloaded(const ChunkLayers& chunk) {
  std::vector<BufferId*> kept;
  for (std::size_t layer = chunk.begin; layer < chunk.end; ++layer) {
    const PreparedBlock& block = *units_[layer + 1].block;
    if (reads_input_again(block, is_recomputed(static_cast<std::int16_t>(layer))))
      kept.push_back(&input(layer, 0));
    Values& values = kept_[layer].front();
    for (std::size_t v = 0; v < values.size(); ++v)
      if (values[v] != no_buffer && block.is_saved[v] &&
          block.graph->values[v].role == ValueRole::activation)
        kept.push_back(&values[v]);
  }
  choose_offloaded(kept);
}

void Lowering::choose_offloaded(std::span<BufferId*> kept) {
  std::vector<std::int64_t> elements;
  double bytes = 0;
  for (const BufferId* id : kept) {
    const Buffer& buffer = build_.draft().buffer(*id);
    std::int64_t n = 1;
    for (const Extent& extent : buffer.shape) {
      XT_CHECK(!extent.is_symbol(), at(*id));
      n *= extent.code;
    }
    elements.push_back(n);
    bytes += static_cast<double>(n * width(buffer.dtype));
  }
  double left = bytes * strategy_.offload_share;
  offloaded_.clear();
  for (std::size_t i = 0; i < kept.size() && left > 0; ++i) {
    const auto each = static_cast<double>(width(build_.draft().buffer(*kept[i]).dtype));
    const auto fits = static_cast<std::int64_t>(std::ceil(left / each));
    offloaded_.push_back({kept[i], elements[i], std::min(elements[i], fits)});
    left -= static_cast<double>(elements[i]) * each;
  }
}

BufferId Lowering::part_of(BufferId whole, std::int64_t first, std::int64_t elements) {
  const DType dtype = build_.draft().buffer(whole).dtype;
  return build_.view(whole, first * width(dtype), {elements, 1, 1}, dtype);
}

OpId Lowering::copy(Kernel kernel, Phase phase, std::int64_t elements, BufferId from, BufferId to) {
  const Lane lane = kernel == Kernel::copy_to_host ? Lane::swap_out : Lane::swap_in;
  return op({kernel, build_.draft().buffer(to).dtype, Group::none, {elements}},
            origin(phase, StepPart::swap), {from}, {to}, lane);
}

// What stays of a tensor that leaves in part becomes a tensor of its own.
void Lowering::split_offloaded() {
  for (OffloadedTensor& tensor : offloaded_) {
    const std::int64_t stays = tensor.elements - tensor.moved;
    if (stays == 0) continue;
    const DType dtype = build_.draft().buffer(*tensor.kept).dtype;
    tensor.rest =
        build_.transient({{stays, 1, 1}, dtype, MemoryCategory::saved_activations, Space::device});
    cast(origin(Phase::forward, StepPart::swap), stays, part_of(*tensor.kept, tensor.moved, stays),
         tensor.rest);
  }
}

void Lowering::copy_chunk_out() {
  for (OffloadedTensor& tensor : offloaded_) {
    const DType dtype = build_.draft().buffer(*tensor.kept).dtype;
    tensor.on_host = build_.transient(
        {{tensor.moved, 1, 1}, dtype, MemoryCategory::saved_activations, Space::host});
    copy(Kernel::copy_to_host, Phase::forward, tensor.moved, part_of(*tensor.kept, 0, tensor.moved),
         tensor.on_host);
  }
  end_chunk(Phase::forward);
}

void Lowering::copy_chunk_in() {
  for (OffloadedTensor& tensor : offloaded_) {
    const Buffer left = build_.draft().buffer(*tensor.kept);
    const bool is_whole = tensor.rest == no_buffer;
    const BufferId back =
        build_.transient({is_whole ? left.shape : std::array<Extent, 3>{tensor.moved, 1, 1},
                          left.dtype, MemoryCategory::saved_activations, Space::device});
    (is_whole ? *tensor.kept : tensor.returned) = back;
    copy(Kernel::copy_to_device, Phase::backward, tensor.moved, tensor.on_host, back);
  }
  end_chunk(Phase::backward);
}

void Lowering::join_offloaded() {
  for (OffloadedTensor& tensor : offloaded_) {
    if (tensor.rest == no_buffer) continue;
    const Buffer left = build_.draft().buffer(*tensor.kept);
    const BufferId whole = build_.transient(
        {left.shape, left.dtype, MemoryCategory::saved_activations, Space::device});
    const Origin from = origin(Phase::backward, StepPart::swap);
    const std::int64_t stays = tensor.elements - tensor.moved;
    cast(from, tensor.moved, tensor.returned, part_of(whole, 0, tensor.moved));
    cast(from, stays, tensor.rest, part_of(whole, tensor.moved, stays));
    *tensor.kept = whole;
  }
  offloaded_.clear();
}

}  // namespace xt
