#pragma once

// The rate that a source prints, counted again from what it measured: how a framework counts flops
// is a convention of its own, and by far most of what two printed rates of one run differ in.

#include <optional>

#include "planner/validate/published_row.h"

namespace xt {

/// A printed rate beside the same rate counted from a row's tokens per second.
struct PrintedFlops {
  double printed_per_s = 0;  ///< of a device
  double counted_per_s = 0;  ///< of a device, by the convention that the row names
  double per_token = 0;      ///< by that convention

  /// Counted / printed - 1.
  double error() const { return counted_per_s / printed_per_s - 1; }
  /// Within what rounding of both printed numbers leaves.
  bool is_reproduced() const { return -0.01 <= error() && error() <= 0.01; }
};

/// The printed rate of `row` and what its convention makes of its tokens; none where it prints no
/// rate, no time, or no convention that is known here.
///
/// Source: LLM-Foundry, scripts/train/benchmarking/README.md: 6 flops of every parameter;
/// torchtitan,
///         models/llama3 and models/deepseek_v3, get_nparams_and_flops; Megatron-LM,
///         training/training.py, num_floating_point_operations; InternEvo,
///         internlm/utils/common.py, get_megatron_flops; ColossalAI,
///         examples/language/performance_evaluator.py
std::optional<PrintedFlops> printed_flops(const PublishedRow& row);

}  // namespace xt
