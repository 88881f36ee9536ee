#pragma once

// Published training steps against their predictions: every row is priced or has a reason why not,
// and what the errors are by machine, framework and source. Nothing is fitted to a row.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/io/json.h"
#include "costmodel/report/style.h"
#include "planner/estimate/estimate.h"
#include "planner/validate/layouts.h"
#include "planner/validate/printed_flops.h"
#include "planner/validate/row_plan.h"
#include "planner/validate/statistics.h"

namespace xt {

/// What a plan predicts of what rows measure.
struct RowPrediction {
  double tokens_per_device_s = 0;
  double step_time_s = 0;
  Bytes allocated;  ///< at the peak, of a rank
  Bytes reserved;   ///< at the peak, of a rank, in the median run
  Bytes beside;     ///< communicators and context, of a rank
  bool fits = true;
  double hardware_flops_per_token = 0;  ///< as executed, recompute included
  /// What the step's ops of each class would take one after the other with nothing beside them.
  std::array<Seconds, kernel_class_names.size()> alone{};

  /// Of a rank, as the device counts.
  Bytes on_device() const { return reserved + beside; }
};

/// What a row came to: a prediction, or a reason without one.
struct RowOutcome {
  std::optional<RowPrediction> predicted;
  std::string reason = {};
  std::string detail = {};                     ///< see RowPlan
  std::optional<RowPrediction> left_out = {};  ///< fitted to other sources; see left_out.h
};

/// A row, its prediction, and signed relative errors of the prediction: above zero it takes too
/// long, or too much. None where the row is not usable for it, or not priced.
struct RowScore {
  PublishedRow row;
  RowOutcome outcome;
  std::optional<double> time_error;
  std::optional<double> memory_error;
  std::optional<double> null_model_time_error;
  std::optional<double> left_out_time_error;
  std::optional<PrintedFlops> printed_flops;

  bool is_supported() const { return outcome.predicted.has_value(); }
};

/// Rows that have something in common, and how far predictions are off there.
struct GroupScore {
  std::vector<std::string> name;  ///< machine, framework family and `dense` or `moe`; or a source
  std::size_t n_rows = 0;
  std::size_t n_unsupported = 0;
  ErrorSummary time;
  ErrorSummary null_model_time;
  ErrorSummary left_out_time;
  ErrorSummary memory;
  std::size_t n_open_memory = 0;  ///< held against an interval, as the source says no kind
};

/// Whether predictions called what ran out of memory, and what did not.
struct OomScore {
  std::size_t n_called = 0;
  std::size_t n_missed = 0;
  std::size_t n_fitting = 0;  ///< priced rows that ran
  std::size_t n_false = 0;    ///< of those, called out of memory
};

/// Rows that print a rate and a time, and those of them whose rate their convention does not give.
struct PrintedScore {
  std::size_t n_rows = 0;
  std::vector<std::size_t> inconsistent;  ///< positions of rows
};

/// All rows and what they add up to.
struct Validation {
  std::vector<RowScore> rows;  ///< in the order of the files
  std::vector<GroupScore> strata;
  std::vector<GroupScore> sources;
  GroupScore total;
  std::vector<std::pair<std::string, std::size_t>> unsupported;  ///< rows by reason, most first
  OomScore oom;
  PrintedScore printed;
  std::vector<LayoutScore> layouts;  ///< of keys with several layouts, in the order of the files
};

/// What `plan` predicts.
RowPrediction predict(const Plan& plan);
/// The same in the devices that `row` counts, which may be parts of the plan's, with memory of the
/// stage that it tells of, and as slow as a mean that begins with the first step, where it is one.
RowPrediction predict(const PublishedRow& row, const Plan& plan);

/// Prices every row, on `n_threads` threads.
///
/// Throws: InputError where a machine's profile is wrong
std::vector<RowOutcome> price_rows(const std::vector<PublishedRow>& rows,
                                   const Catalogue& catalogue, std::size_t n_threads);

/// Holds outcomes against what was measured.
///
/// time_error   predicted time of a token / measured - 1, from throughput, or from the time of a
///              step and its batch
/// memory_error predicted / measured - 1 in the kind that the source prints; where it says none,
///              the distance to [allocated, reserved], or to the device's use where it may be that;
///              where it says no unit, the distance to what GB may be
/// left out     the same with the machine's profile fitted to the rows of all other sources
/// null model   one rate of executed flops per device in each machine, framework family, dense or
///              routed, with or without fp8: the median over the other rows; none for a row alone
/// Assumes: as many outcomes as rows, in their order
Validation score(const std::vector<PublishedRow>& rows, const std::vector<RowOutcome>& outcomes);

/// The document of `--json`, schema xt.validation/1.
Json validation_json(const Validation& validation);
/// The document of `--json --explain`, schema xt.validation_row/1.
Json explanation_json(const RowScore& row, const RowPlan& plan);

/// The answer for people.
std::string validation_text(const Validation& validation);
/// One row for people: what was run, predicted against measured, and the estimate of its plan.
std::string explanation_text(const RowScore& row, const RowPlan& plan, const Style& style);

}  // namespace xt
