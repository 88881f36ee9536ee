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

}  // namespace xt
