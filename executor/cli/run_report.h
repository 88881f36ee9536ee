#pragma once

// What a training run says of itself: a line a step, a table at the end, or one JSON document.

#include <string>
#include <vector>

#include "costmodel/io/json.h"
#include "executor/train/run.h"

namespace xt {

/// One step for people, without a line break.
std::string step_line(const StepMetrics& metrics, std::int64_t n_steps);

/// Predicted, measured and error of everything that the plan predicts; empty if it predicts
/// nothing.
std::string comparison_table(const PlanFile& plan, const RunSummary& summary);

/// The last loss beside what a table of pairs would reach on the same text.
std::string loss_line(const RunSummary& summary, double bigram_entropy);

/// How many of `n_steps` steps updated nothing, in a sentence; empty if none.
std::string skipped_text(const RunSummary& summary, std::size_t n_steps);

/// All of it, versioned.
Json run_json(const PlanFile& plan, const std::vector<StepMetrics>& steps,
              const RunSummary& summary, double bigram_entropy);

}  // namespace xt
