#pragma once

// Predicted against measured: the same schedule, interpreted twice, joined op by op. The error of a
// step is split by three further interpretations: the prediction under the data that came, and the
// measured durations pushed through the schedule.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/hardware/profile.h"
#include "costmodel/io/json.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/io/timeline_lines.h"
#include "costmodel/ir/account.h"

namespace xt {

/// Everything a plan directory holds after a run.
struct MeasuredPlan {
  PlanFile plan;
  Profile profile;  ///< as priced, overlay included
  Schedule schedule;
  Timeline predicted;
  std::vector<Timeline> measured;       ///< recorded steps of all ranks, the first step left out
  std::vector<Duration> clock_offsets;  ///< of each: how much later than rank 0's its step began
  std::vector<Duration> step_starts;    ///< of each: when rank 0 began the step, in its run
};

/// The plan directory `directory`, which was run with recorded steps.
///
/// Throws: InputError when files are missing or belong to different schedules
MeasuredPlan read_measured_plan(const std::filesystem::path& directory);

/// Time of all ops of one kernel in a step.
struct KernelTime {
  Kernel kernel{};
  Seconds predicted;
  Seconds measured;  ///< median over recorded steps and ranks
};

/// A step as predicted and as measured.
struct Comparison {
  Seconds predicted;  ///< step as planned
  Seconds on_data;    ///< the same, priced under the data of the rank that had most
  Seconds replayed;   ///< durations of role_timelines() through the schedule, median
  Seconds measured;   ///< median over recorded steps and ranks
  Seconds skew;       ///< waiting for late ranks, median
  StepAccount predicted_account;
  StepAccount measured_account;  ///< medians, collectives counted from the last rank's arrival
  /// Rows of the rank with most over the mean of the ranks, mean over exchanges; absent without.
  std::optional<double> routing_imbalance;
  std::vector<KernelTime> kernels;    ///< largest difference first
  std::vector<Seconds> rank_medians;  ///< by rank
  MemoryPeak predicted_memory;
  MemoryPeak on_data_memory;   ///< the schedule's memory under the data of the largest step
  MemoryPeak measured_memory;  ///< the largest recorded

  double error() const { return predicted / measured - 1.0; }
};

/// Joins a measured plan with its prediction.
Comparison compare(const MeasuredPlan& plan);

/// The median; zero of nothing.
Seconds median(std::vector<Seconds> values);

/// The peak of device memory when each micro-step of `timeline` has the data it had.
///
/// Assumes: the first section with a micro-step has the first bindings, the one that repeats after
///          it the others; sections without symbols have any
MemoryPeak memory_on_data(const Schedule& schedule, const Timeline& timeline);

/// Symbols as the recorded steps bound them: of each the largest over ranks, the mean over
/// micro-steps and steps.
///
/// Assumes: ranks wait for each other before and after what a symbol sizes: experts lie between two
///          exchanges of rows, attention between the gathers of two layers. role_timelines() takes
///          durations in the same way.
Bindings busiest_bindings(const MeasuredPlan& plan);

/// Which of the groups of this shape `rank` is in: ranks of one group have the same.
inline std::pair<std::int32_t, std::int32_t> group_of(const GroupShape& shape, std::int32_t rank) {
  return {rank / (shape.stride * shape.size), rank % shape.stride};
}

/// `timeline` with the start of every collective moved to the arrival of the last rank of its group
/// in the same step; `skew` is what was moved.
Timeline from_last_arrival(const MeasuredPlan& plan, std::size_t timeline, Duration& skew);

/// The document of `--json`, schema xt.comparison/1.
Json comparison_json(const MeasuredPlan& plan, const Comparison& comparison);

/// The answer for people.
std::string comparison_text(const MeasuredPlan& plan, const Comparison& comparison);

/// All recorded steps for Perfetto on one clock: a process for each rank and one for what was
/// predicted, a thread for each lane, and an arrow through every collective from the rank that came
/// first to the one that came last.
Json chrome_trace(const MeasuredPlan& plan);

}  // namespace xt
