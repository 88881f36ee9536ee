// Figures that a trainer logs of a micro-step's loss, computed from its logits once more.

#include "planner/lower/lowering.h"

namespace xt {

// Each figure is a cross-entropy under autocast, which widens logits that the model's output has
// kept until then; reading the labels' entries is nothing beside.
//
// Source: MosaicML Composer, trainer/trainer.py, _eval_train_metrics, behind a micro-step's
// backward pass and under its precision; metrics/nlp.py, LanguageCrossEntropy
void Lowering::log_metrics() {
  const std::int64_t T = strategy_.loss_tokens(), V = graph_.vocabulary;
  const Origin from = origin(Phase::loss, StepPart::metrics);
  const auto wide = [&] {
    return build_.transient(
        {{T, V, 1}, DType::fp32, MemoryCategory::logits_and_loss, Space::device});
  };
  for (std::int64_t i = 0; i < rules_.logged_metrics; ++i) {
    BufferId logits = logits_;
    if (graph_.dtype != DType::fp32) {
      logits = wide();
      cast(from, T * V, logits_, logits);
    }
    cast(from, T * V, logits, wide());
  }
}

// Logits are read for a cross-entropy without its gradient and copied. The copy is read for its
// largest twice, for where that is and for what it is less than that, of which exponentials are
// made and read once more for a sum.
//
// Source: InternLM 0.2, model/metrics.py, AccPerplex and its LossWithTypeId, which
// core/scheduler/no_pipeline_scheduler.py calls between the forward pass and the loss
void Lowering::score_logits(std::int64_t rows, BufferId logits) {
  const Origin from = origin(Phase::loss, StepPart::metrics);
  const std::int64_t V = graph_.vocabulary, wide = width(DType::fp32);
  const auto made = [&] {
    return build_.transient(
        {{rows, V, 1}, DType::fp32, MemoryCategory::logits_and_loss, Space::device});
  };
  const BufferId copy = made(), less = made(), exponentials = made();
  op(Kernel::cast, from, {rows * V, (2 + 1) * wide, 2}, {logits}, {copy});
  op(Kernel::cast, from, {rows * V, (4 + 1) * wide, 4}, {copy}, {less});
  op(Kernel::cast, from, {rows * V, (2 + 1) * wide, 2}, {copy, less}, {exponentials});
}

// What a model put out is widened. Of so many tokens at a time log-probabilities are made, and
// exponentials of these, their products and sums; of all at once the likeliest is found. The host
// waits for both before the backward pass.
//
// Source: Hugging Face accelerate, accelerator.py, prepare_model, convert_outputs_to_fp32; TRL,
// trainer/sft_trainer.py, compute_loss, and trainer/utils.py, entropy_from_logits
void Lowering::log_tokens(const Origin& from, std::int64_t rows, BufferId logits) {
  constexpr std::int64_t at_a_time = 128, kernels = 4, passes = 2 + 2 + 3 + 1;
  constexpr std::int64_t wide_bytes = width(DType::fp32);
  const std::int64_t V = graph_.vocabulary;
  const auto made = [&](std::int64_t columns) {
    return build_.transient(
        {{rows, columns, 1}, DType::fp32, MemoryCategory::logits_and_loss, Space::device});
  };
  const BufferId wide = made(V), found = made(1);
  cast(from, rows * V, logits, wide);
  const std::int64_t n_chunks = (rows + at_a_time - 1) / at_a_time;
  op(Kernel::cast, from, {rows * V, passes * wide_bytes, kernels * n_chunks}, {wide}, {found});
  op(Kernel::cast, from, {rows * V, wide_bytes}, {wide}, {found});
  op(Kernel::wait, from, {}, {found}, {}, Lane::host);
}

}  // namespace xt
