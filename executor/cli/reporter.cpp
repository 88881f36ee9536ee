#include "executor/cli/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "executor/cli/run_report.h"
#include "executor/runtime/out_of_memory.h"

namespace xt {
namespace {

/// What a run says of itself at its beginning, before it resumes anything.
RunRecord record_of(const RunRequest& request, int n_ranks) {
  RunRecord record;
  record.ranks = n_ranks;
  record.steps = request.steps;
  record.checkpoints = std::filesystem::absolute(request.checkpoints.folder).string();
  return record;
}

OnStall stall_report(std::shared_ptr<RunMarker> marker, OnStall further) {
  return [marker = std::move(marker),
          further = std::move(further)](const std::optional<std::string>& text) {
    if (marker) marker->failed(text ? text->substr(0, text->find('\n')) : "nothing moved any more");
    further(text);
  };
}

}  // namespace

std::string failure_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory: the system gives no more; " + held_text(memory_usage());
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

Reporter::Reporter(const TrainOptions& options, const RunRequest& request, const PlanFile& plan,
                   const RankEnvironment& place)
    : options_(options),
      request_(request),
      plan_(plan),
      rank_(place.rank),
      is_first_(place.rank == 0),
      prints_steps_(is_first_ && !options.is_json && !options.is_quiet && !options.prints_xtuner),
      shows_progress_(is_first_ && !options.is_quiet && isatty(STDERR_FILENO) != 0),
      progress_(std::cerr, shows_progress_, "step", options.steps) {
  place_.ranks = place.world_size;
  place_.steps = request.steps;
  if (is_first_)
    marker_ = std::make_shared<RunMarker>(request.directory, record_of(request, place.world_size));
}

RunListener Reporter::listener() {
  return {stall_report(marker_, options_.on_stall),
          [this](const StepMetrics& metrics) { step(metrics); },
          [this](const std::string& warning) {
            if (is_first_) fmt::print(stderr, "warning: {}\n", warning);
          },
          [this](const RunPosition& position) { resumed(position.step); }};
}

void Reporter::finished() {
  if (log_) log_->say(fmt::format("Training finished in {:.2f} seconds", place_.train_time.value));
  if (marker_) marker_->finished();
}

void Reporter::failed(const std::exception& error) {
  if (marker_) marker_->failed(failure_text(error));
}

void Reporter::resumed(std::int64_t step) {
  resumed_behind_ = step;
  if (marker_) marker_->resumed(step);
  if (is_first_ && !options_.is_quiet) fmt::print(stderr, "resumed behind step {}\n", step);
}

void Reporter::begin_log(const StepMetrics& first) {
  began_ = std::chrono::steady_clock::now() - quantize(first.own.data_time + first.own.time);
  log_.emplace(request_.directory, rank_, resumed_behind_);
  log_->say(fmt::format("grad_accumulation_steps: {}", plan_.gradient_accumulation));
}

void Reporter::log(const StepMetrics& metrics) {
  if (!log_) begin_log(metrics);
  place_.train_time = to_seconds(std::chrono::steady_clock::now() - began_);
  place_.run_tokens += metrics.own.tokens;
  place_.run_steps = metrics.step - resumed_behind_;
  log_->step(metrics, place_);
}

void Reporter::step(const StepMetrics& metrics) {
  log(metrics);
  const bool prints_xtuner = options_.prints_xtuner && !options_.is_quiet;
  if (shows_progress_ && (prints_steps_ || prints_xtuner)) std::cerr << "\r\x1b[K" << std::flush;
  if (prints_xtuner)
    fmt::print(stderr, "{}\n", xtuner_line(xtuner_message(metrics, place_), rank_));
  if (prints_steps_) {
    fmt::print("{}\n", step_line(metrics, options_.steps));
    std::fflush(stdout);
  }
  progress_.update(metrics.step);
}

}  // namespace xt
