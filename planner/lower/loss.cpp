// The head: final norm, and lm_head with its cross-entropy chunk by chunk, gradients included, so
// that the logits of all tokens never exist at once.

#include <algorithm>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Parameters of the head block, and of the embedding block where it lends its weight.
constexpr std::size_t norm_parameter = 0;
constexpr std::size_t lm_head_parameter = 1;
constexpr std::size_t embedding_parameter = 0;

}  // namespace

BufferId Lowering::head_weight(bool is_gradient) {
  return graph_.ties_embedding ? piece_view(units_.front(), embedding_parameter, is_gradient)
                               : piece_view(units_.back(), lm_head_parameter, is_gradient);
}

// Of logits whose columns ranks share, the largest, the one of the label and the sum of
// exponentials are those of all ranks.
//
// Source: Megatron-LM, core/tensor_parallel/cross_entropy.py
void Lowering::cross_entropy(const Origin& from, std::int64_t rows, BufferId logits,
                             BufferId labels) {
  const BatchBuffers& batch = build_.draft().batch;
  const DType dtype = build_.draft().buffer(logits).dtype;
  const Work work{Kernel::cross_entropy, dtype, Group::none, {rows, graph_.vocabulary}};
  if (strategy_.tensor_parallel == 1) {
    op(work, from, {labels, batch.valid_tokens}, {logits, batch.loss});
    return;
  }
  constexpr std::int64_t n = 3;
  const BufferId sums = build_.transient(
      {{n * rows, 1, 1}, DType::fp32, MemoryCategory::logits_and_loss, Space::device});
  op(Kernel::cast, from, {rows * graph_.vocabulary, width(dtype)}, {logits}, {sums});
  for (std::int64_t i = 0; i < n; ++i) {
    const BufferId sum =
        build_.view(sums, i * rows * width(DType::fp32), {rows, 1, 1}, DType::fp32);
    op({Kernel::all_reduce, DType::fp32, Group::tensor, {rows}}, from, {}, {sum}, Lane::expert);
  }
  if (!rules_.sums_loss_op_by_op) {
    op(work, from, {labels, batch.valid_tokens, sums}, {logits, batch.loss});
    return;
  }
  const BufferId exponentials = build_.transient(
      {{rows, graph_.vocabulary, 1}, DType::fp32, MemoryCategory::workspace, Space::device});
  op(work, from, {labels, batch.valid_tokens, sums}, {logits, batch.loss, exponentials});
}

// What a cross-entropy op by op reads and writes beyond the three passes of a fused one: a row is
// read for its largest, for its sum and for what comes of both; its gradient begins with zeros, and
// that of a softmax reads two tensors twice. Megatron's, in place, comes to as many. A loss in
// chunks is fused or compiled.
//
// Source: PyTorch, aten/src/ATen/native/cuda/SoftMax.cu, cunn_SoftMaxForward and
// cunn_SoftMaxBackward, and NLLLoss.cu; Megatron-LM, core/tensor_parallel/cross_entropy.py
void Lowering::pass_logits(const Origin& from, std::int64_t rows, BufferId logits) {
  constexpr std::int64_t further_passes = 7, kernels = 4;
  if (!rules_.has_loss_op_by_op) return;
  op(Kernel::cast, from, {rows * graph_.vocabulary, further_passes * width(DType::fp32), kernels},
     {logits}, {logits});
}

// Logits are widened as they are read, and what autograd makes of them is as narrow as they are,
// or both are in fp32.
//
// Source: torchtitan, components/loss.py, where compile has the loss among its components
void Lowering::compiled_cross_entropy(const Origin& from, std::int64_t rows, BufferId logits,
                                      BufferId labels) {
  const BatchBuffers batch = build_.draft().batch;
  const DType dtype = build_.draft().buffer(logits).dtype;
  const Work work{Kernel::cross_entropy, dtype, Group::none, {rows, graph_.vocabulary}};
  const std::array<BufferId, 2> inputs{labels, batch.valid_tokens};
  const std::array<BufferId, 2> outputs{logits, batch.loss};
  workspaces_.assign(1, {{rows, graph_.vocabulary, 1}, dtype});
  build_.add({work, Lane::compute, from, inputs, outputs, workspaces_, {}});
}

// Hidden states of all tokens, where ranks that share lm_head have a part of them each.
void Lowering::gather_hidden() {
  if (!shares_tokens()) return;
  const Extent n = strategy_.loss_tokens() * graph_.width;
  const BufferId whole = build_.transient({{strategy_.loss_tokens(), graph_.width, 1},
                                           graph_.dtype,
                                           MemoryCategory::logits_and_loss,
                                           Space::device});
  op(Kernel::all_gather, origin(Phase::loss, StepPart::final_norm), {n}, {hidden_}, {whole},
     Lane::expert, Group::tensor);
  hidden_ = whole;
}

// The ranks' gradients of hidden states are summed; each keeps what it had.
void Lowering::reduce_hidden() {
  if (strategy_.tensor_parallel == 1) return;
  const Origin from = origin(Phase::loss, StepPart::final_norm);
  const Extent n = strategy_.loss_tokens() * graph_.width;
  if (!shares_tokens()) {
    op(Kernel::all_reduce, from, {n}, {}, {d_hidden_}, Lane::expert, Group::tensor);
    return;
  }
  const BufferId own = build_.transient({{strategy_.rank_tokens(), graph_.width, 1},
                                         graph_.dtype,
                                         MemoryCategory::logits_and_loss,
                                         Space::device});
  op(Kernel::reduce_scatter, from, {n}, {d_hidden_}, {own}, Lane::expert, Group::tensor);
  d_hidden_ = own;
}

Lowering::LossRows Lowering::loss_rows(std::int64_t first, std::int64_t rows) {
  const std::int64_t E = graph_.width, offset = first * E * width(graph_.dtype);
  const BufferId hidden = build_.view(hidden_, offset, {rows, E, 1}, graph_.dtype);
  const BufferId d_hidden = build_.view(d_hidden_, offset, {rows, E, 1}, graph_.dtype);
  const BufferId labels = build_.view(build_.draft().batch.labels, first * width(DType::int64),
                                      {rows, 1, 1}, DType::int64);
  return {hidden, d_hidden, labels};
}

// Source: derived; d logits = (softmax − onehot) / valid tokens, both products of one chunk at once
void Lowering::loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows) {
  const Origin from = origin(Phase::loss, StepPart::lm_head, -1, chunk);
  const std::int64_t E = graph_.width, V = graph_.vocabulary;
  const auto [hidden, d_hidden, labels] = loss_rows(first, rows);
  const BufferId logits = build_.transient(
      {{rows, V, 1}, graph_.dtype, MemoryCategory::logits_and_loss, Space::device});
  logits_ = logits;
  op(Kernel::matmul, from, {rows, V, E}, {hidden, head_weight_}, {logits});
  cross_entropy(from, rows, logits, labels);
  op(Kernel::matmul_input_backward, from, {rows, V, E}, {logits, head_weight_}, {d_hidden});
  const bool is_added = first > 0 || adds_head_gradient();
  op(is_added ? Kernel::matmul_weight_backward_add : Kernel::matmul_weight_backward, from,
     {rows, V, E}, {logits, hidden}, {head_gradient_});
}

// A kernel leaves gradients where it reads 16-bit logits. What a chunk adds to the weight's
// gradient is a product in 16 bits, and that once more in fp32.
//
// Source: Liger-Kernel 0.7, ops/fused_linear_cross_entropy.py, with accum_dtype left out
void Lowering::liger_loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows) {
  const Origin from = origin(Phase::loss, StepPart::lm_head, -1, chunk);
  const std::int64_t E = graph_.width, V = graph_.vocabulary;
  const auto [hidden, d_hidden, labels] = loss_rows(first, rows);
  const auto transient = [&](std::int64_t n, std::int64_t m, DType dtype) {
    return build_.transient({{n, m, 1}, dtype, MemoryCategory::logits_and_loss, Space::device});
  };
  const BufferId logits = transient(rows, V, graph_.dtype);
  op(Kernel::matmul, from, {rows, V, E}, {hidden, head_weight_}, {logits});
  const Work work{Kernel::cross_entropy, graph_.dtype, Group::none, {rows, V}};
  const BatchBuffers& batch = build_.draft().batch;
  const std::array<BufferId, 2> inputs{labels, batch.valid_tokens}, outputs{logits, batch.loss};
  build_.add({work, Lane::compute, from, inputs, outputs, {}, {}});
  op(Kernel::matmul_input_backward, from, {rows, V, E}, {logits, head_weight_}, {d_hidden});
  const BufferId product = transient(V, E, graph_.dtype), wide = transient(V, E, DType::fp32);
  op(Kernel::matmul_weight_backward, from, {rows, V, E}, {logits, hidden}, {product});
  cast(from, V * E, product, wide);
  op(Kernel::add, from, {V * E}, {wide}, {head_gradient_});
}

// Logits are widened to fp32 and differentiated by autograd; the weight gradient of a chunk is a
// tensor of its own, and the one before it is still referenced while it is made. Who returns logits
// has them beside the ones that the loss is of, which leave out the last token.
//
// Source: XTuner V1 (InternLM/xtuner, b934f4620), loss/chunk_loss.py; Transformer Engine,
// common/triton/cross_entropy.py, whose kernel leaves gradients where it reads logits; Hugging Face
// transformers 4.35, modeling_llama.py, shift_logits
void Lowering::autograd_loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows) {
  const Origin from = origin(Phase::loss, StepPart::lm_head, -1, chunk);
  const std::int64_t E = graph_.width, V = graph_.vocabulary;
  const auto transient = [&](std::int64_t n, std::int64_t m, DType dtype,
                             Lane pool = Lane::compute) {
    return build_.transient(
        {{n, m, 1}, dtype, MemoryCategory::logits_and_loss, Space::device, Lane::compute, pool});
  };
  const Lane apart = rules_.pools_narrow_logits ? Lane::expert : Lane::compute;
  const auto [hidden, d_hidden, labels] = loss_rows(first, rows);
  const BufferId narrow = transient(rows, V, graph_.dtype, apart);
  const bool is_narrow = strategy_.compiles_loss && !rules_.widens_compiled_loss;
  const BufferId logits = is_narrow ? narrow : transient(rows, V, DType::fp32);
  const bool is_returned = rules_.holds_outputs || strategy_.returns_logits;
  const BufferId wide = is_returned ? transient(rows, V, DType::fp32) : logits;
  const BufferId d_logits = is_narrow ? narrow : transient(rows, V, graph_.dtype, apart);
  const bool adds_chunks = rules_.loss == LossKind::fp32_chunks;
  const bool adds_apart =
      !adds_chunks && adds_head_gradient() && !rules_.accumulates_in_products && first == 0;
  const bool is_apart = (adds_chunks || adds_apart) && half_ != BackwardHalf::inputs;
  const BufferId gradient = is_apart ? transient(V, E, graph_.dtype) : head_gradient_;
  op(Kernel::matmul, from, {rows, V, E}, {hidden, head_weight_}, {narrow});
  if (is_narrow && rules_.has_transformer_engine) {
    cross_entropy(from, rows, logits, labels);
    cast(from, rows * V, logits, logits);
  } else if (is_narrow) {
    compiled_cross_entropy(from, rows, logits, labels);
  } else {
    cast(from, rows * V, narrow, wide);
    if (is_returned) cast(from, rows * V, wide, logits);
    if (rules_.scores_logits) score_logits(rows, logits);
    if (strategy_.compiles_loss) {
      compiled_cross_entropy(from, rows, logits, labels);
    } else {
      cross_entropy(from, rows, logits, labels);
      if (rows == strategy_.loss_tokens()) pass_logits(from, rows, logits);
    }
    if (rules_.logs_tokens && rows == strategy_.loss_tokens()) log_tokens(from, rows, narrow);
    cast(from, rows * V, logits, d_logits);
  }
  op(Kernel::matmul_input_backward, from, {rows, V, E}, {d_logits, head_weight_}, {d_hidden});
  if (half_ == BackwardHalf::inputs) {
    head_products_.push_back({from, rows, d_logits, hidden, first == 0});
    return;
  }
  const bool is_added = !adds_chunks && !adds_apart && (first > 0 || adds_head_gradient());
  const OpId product = head_gradient_product(
      is_added ? Kernel::matmul_weight_backward_add : Kernel::matmul_weight_backward, from, rows,
      d_logits, hidden, gradient);
  if (is_returned) outputs_.push_back(wide);
  if (adds_apart) add_gradient(from, PendingSum{gradient, head_gradient_, V * E});
  if (!adds_chunks) return;
  build_.hold(logits, product);
  if (last_chunk_gradient_ != no_buffer) build_.hold(last_chunk_gradient_, product);
  last_chunk_gradient_ = gradient;
  op(Kernel::add, from, {V * E}, {gradient}, {head_gradient_});
}

// The sum over ranks inside the loss makes its gradient differ from one, so that both stored
// gradients are scaled into new tensors.
void Lowering::finish_autograd_loss() {
  const Origin from = origin(Phase::loss, StepPart::rescale);
  const Extent n = graph_.vocabulary * graph_.width;
  FsdpUnit& unit = graph_.ties_embedding ? units_.front() : units_.back();
  open_gradients(unit, Phase::loss);
  if (is_further_loss_)
    op(Kernel::add, from, {n}, {head_gradient_}, {head_weight(true)});
  else
    cast(from, n, head_gradient_, head_weight(true));
  const std::int64_t T = strategy_.loss_tokens();
  const BufferId scaled = build_.transient(
      {{T, graph_.width, 1}, graph_.dtype, MemoryCategory::logits_and_loss, Space::device});
  cast(from, T * graph_.width, d_hidden_, scaled);
  d_hidden_ = scaled;
}

void Lowering::loss_chunks() {
  const std::int64_t T = strategy_.loss_tokens();
  const std::int64_t rows = std::min(strategy_.loss_chunk, T);
  last_chunk_gradient_ = no_buffer;
  std::int16_t chunk = 0;
  for (std::int64_t first = 0; first < T; first += rows, ++chunk) {
    const std::int64_t n = std::min(rows, T - first);
    if (has_liger_loss()) {
      liger_loss_chunk(chunk, first, n);
    } else if (rules_.loss == LossKind::in_place) {
      loss_chunk(chunk, first, n);
    } else {
      autograd_loss_chunk(chunk, first, n);
    }
  }
}

// Hidden states of all micro-batches lie one behind the other, so that chunks run through them.
void Lowering::final_norm_forward(std::span<const OpId> after) {
  const std::int64_t T = strategy_.rank_tokens(), E = graph_.width;
  const BufferId norm = piece_view(units_.back(), norm_parameter, false);
  final_rstd_.clear();
  for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
    final_rstd_.push_back(build_.transient({{T, graph_.norm.moments, 1},
                                            DType::fp32,
                                            MemoryCategory::logits_and_loss,
                                            Space::device}));
    op(graph_.norm.forward, origin(Phase::loss, StepPart::final_norm), {T, E},
       {input(own_layers(), m), norm}, {rows_of(hidden_, m), final_rstd_.back()}, Lane::compute,
       Group::none, after);
  }
}

void Lowering::final_norm_backward() {
  const std::int64_t T = strategy_.rank_tokens(), E = graph_.width;
  const Origin from = origin(Phase::loss, StepPart::final_norm);
  const BufferId norm = piece_view(units_.back(), norm_parameter, false);
  const BufferId gradient = piece_view(units_.back(), norm_parameter, true);
  const DType dtype = build_.draft().buffer(input(own_layers(), 0)).dtype;
  for (std::size_t m = 0; m < micro_batches_.size(); ++m) {
    const bool is_added = m > 0 || adds_gradients();
    const BufferId addend =
        !is_added
            ? gradient
            : build_.transient({{E, 1, 1}, graph_.dtype, MemoryCategory::gradients, Space::device});
    micro_batches_[m].gradient =
        build_.transient({{T, E, 1}, dtype, MemoryCategory::logits_and_loss, Space::device});
    op(graph_.norm.backward, from, {T, E},
       {rows_of(d_hidden_, m), input(own_layers(), m), norm, final_rstd_[m]},
       {micro_batches_[m].gradient, addend});
    if (is_added) op(Kernel::add, from, {E}, {addend}, {gradient});
  }
}

// The part of `whole` [n·T,E] that belongs to a micro-batch.
BufferId Lowering::rows_of(BufferId whole, std::size_t micro_batch) {
  if (micro_batches_.size() == 1) return whole;
  const std::int64_t T = strategy_.rank_tokens(), E = graph_.width;
  const auto offset = static_cast<std::int64_t>(micro_batch) * T * E * width(graph_.dtype);
  return build_.view(whole, offset, {T, E, 1}, graph_.dtype);
}

// Gradients of lm_head and of what it was given, chunk by chunk.
void Lowering::differentiate_loss() {
  FsdpUnit& head = units_.back();
  head_weight_ = head_weight(false);
  if (rules_.loss == LossKind::fp32_chunks) {
    const Extent n = graph_.vocabulary * graph_.width;
    head_gradient_ = build_.transient({{graph_.vocabulary, graph_.width, 1},
                                       graph_.dtype,
                                       MemoryCategory::logits_and_loss,
                                       Space::device});
    op(Kernel::fill_zero, origin(Phase::loss, StepPart::lm_head), {n}, {}, {head_gradient_});
    loss_chunks();
    finish_autograd_loss();
  } else {
    open_gradients(graph_.ties_embedding ? units_.front() : head, Phase::loss);
    head_gradient_ = head_weight(true);
    if (has_liger_loss() && !adds_head_gradient())
      op(Kernel::fill_zero, origin(Phase::loss, StepPart::lm_head),
         {graph_.vocabulary * graph_.width}, {}, {head_gradient_});
    loss_chunks();
  }
}

void Lowering::loss(bool is_first) {
  FsdpUnit& head = units_.back();
  const std::int64_t T = strategy_.loss_tokens(), E = graph_.width;
  const auto transient = [&](Extent rows, Extent columns) {
    return build_.transient(
        {{rows, columns, 1}, graph_.dtype, MemoryCategory::logits_and_loss, Space::device});
  };
  gather(head, Phase::loss);
  copy_out(head, Phase::loss);
  hidden_ = transient(strategy_.rank_tokens() * strategy_.intra_layer_micro_batches, E);
  d_hidden_ = transient(T, E);
  const OpId swap = pending_swap_;
  final_norm_forward(std::span(&swap, swap == no_op ? 0u : 1u));
  pending_swap_ = no_op;
  gather_hidden();
  differentiate_loss();
  open_gradients(head, Phase::loss);
  reduce_hidden();
  final_norm_backward();
  further_losses();
  if (keeps_root()) return;
  if (!keeps_read_head()) {
    if (graph_.ties_embedding) release(units_.front());
    release(head);
  }
  if (half_ == BackwardHalf::both) reduce(head, is_first);
}

}  // namespace xt
