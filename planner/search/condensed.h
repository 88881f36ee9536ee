#pragma once

// A step of fewer layers that stands for one of many. Layers that do the same one behind the other
// come to the same memory and time, so those in the middle are left out and counted; what is found
// is what the whole schedule says, to the byte and the nanosecond.

#include <cstdint>
#include <vector>

#include "costmodel/ir/op_graph.h"
#include "costmodel/ir/schedule.h"
#include "planner/strategy.h"

namespace xt {

/// So many layers that are left out, between two of those that are there. They hold what both of
/// these hold at once: what a layer holds only near its own ops, the two never hold together.
struct LeftOut {
  std::int16_t below = 0;
  std::int16_t above = 0;
  std::int64_t n = 0;
};

/// A step without the middle of its runs of equal layers.
struct Condensed {
  std::vector<std::uint16_t> layers;  ///< as OpGraph has them
  Strategy strategy;
  std::vector<LeftOut> left_out;

  /// By layer that is there, how many layers it stands for.
  std::vector<std::int64_t> copies() const;
};

/// Whether a step of `strategy` does nothing that depends on all layers at once, as batches of
/// Muon, one all-reduce of all norms, buckets of all gradients or of several layers' and stages of
/// a pipeline do, and goes through layers in one direction at a time, as pairs of micro-steps do
/// not.
bool is_condensable(const Strategy& strategy);

/// The step of `graph` and `strategy` without the middle of its runs.
///
/// Assumes: is_condensable(strategy)
Condensed condensed(const OpGraph& graph, const Strategy& strategy);

/// Peaks of memory of a step.
struct StepMemory {
  Bytes device;  ///< allocated
  Bytes pooled;  ///< see pooled_peak()
  Bytes host;

  bool operator==(const StepMemory&) const = default;
};

/// Peaks of the step that `schedule` stands for without the layers that are left out.
///
/// Assumes: a transient buffer of no left-out layer's kind is used more than a layer away from the
///          layer that it belongs to, unless it waits for that layer's next phase; where memory is
///          held back, no layer is left out
StepMemory step_memory(const Schedule& schedule, const Bindings& bindings,
                       const std::vector<LeftOut>& left_out);

}  // namespace xt
