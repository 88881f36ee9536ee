#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/report/progress.h"
#include "executor/cli/commands.h"
#include "executor/cli/run_report.h"
#include "executor/data/bigram_entropy.h"
#include "executor/launch/launcher.h"
#include "executor/launch/threads.h"

namespace xt {
namespace {

DType saved_dtype(const std::string& text) {
  if (text == "fp32") return DType::fp32;
  if (text == "bf16") return DType::bf16;
  throw InputError(fmt::format("--save-dtype: `{}` is not fp32 or bf16", text));
}

CheckpointChoices checkpoints_of(const TrainOptions& options) {
  if (options.checkpoint_every < 0)
    throw InputError(
        fmt::format("--checkpoint-every is {}, expected at least 1", options.checkpoint_every));
  if (options.keep_checkpoints < 1)
    throw InputError(
        fmt::format("--keep-checkpoints is {}, expected at least 1", options.keep_checkpoints));
  if (options.resumes && options.weights)
    throw InputError("--weights and --resume both say where to start from", "leave one away");
  return {options.checkpoints.value_or(options.plan / "checkpoints"), options.checkpoint_every,
          options.keep_checkpoints, options.resumes};
}

RunRequest request_of(const TrainOptions& options) {
  if (options.steps < 1)
    throw InputError(fmt::format("--steps is {}, expected at least 1", options.steps));
  RunRequest request;
  request.directory = options.plan;
  request.data = options.data;
  request.steps = options.steps;
  if (!options.record_steps.empty())
    request.record_steps = parse_steps(options.record_steps, options.steps);
  request.weights = options.weights;
  request.save_weights = options.save_weights;
  if (options.save_dtype) request.save_dtype = saved_dtype(*options.save_dtype);
  request.checkpoints = checkpoints_of(options);
  if (options.stall_timeout_s < 0)
    throw InputError(
        fmt::format("--stall-timeout is {}, expected at least 1", options.stall_timeout_s));
  request.stall_timeout_s = options.stall_timeout_s;
  request.overwrite = options.may_overwrite ? Overwrite::allow : Overwrite::refuse;
  return request;
}

void check_ranks(const TrainOptions& options, const RankEnvironment& place) {
  if (options.n_ranks && *options.n_ranks < 1)
    throw InputError(fmt::format("--nproc is {}, expected at least 1", *options.n_ranks));
  if (options.threads && *options.threads < 1)
    throw InputError(fmt::format("--threads is {}, expected at least 1", *options.threads));
  if (place.world_size > 1 && options.n_ranks && *options.n_ranks != place.world_size)
    throw InputError(fmt::format("--nproc is {}, but a launcher started {} ranks", *options.n_ranks,
                                 place.world_size),
                     "leave --nproc away where a launcher starts the ranks");
}

/// Starts the ranks, having read all that they will read, so that what is wrong is said here.
ExitCode start_ranks(const TrainOptions& options, const RunRequest& request, int n_ranks) {
  const Schedule schedule = load_inputs(request, n_ranks).plan.schedule;
  const ActivityBoard board(n_ranks);
  LaunchOptions launched;
  launched.shared_descriptor = board.descriptor();
  launched.last_seen = [&](int rank) { return describe(board.of(rank), schedule); };
  launched.n_ranks = n_ranks;
  launched.threads_per_rank = options.threads.value_or(threads_per_rank(n_ranks));
  launched.arguments = options.arguments;
  return static_cast<ExitCode>(launch(launched));
}

/// Says how a run goes on; on rank 0 only.
class Reporter {
 public:
  Reporter(const TrainOptions& options, bool is_first)
      : options_(options),
        is_first_(is_first),
        prints_steps_(is_first && !options.is_json && !options.is_quiet),
        shows_progress_(is_first && !options.is_quiet && isatty(STDERR_FILENO) != 0),
        progress_(std::cerr, shows_progress_, "step", options.steps) {}

  RunListener listener() {
    return {options_.on_stall, [this](const StepMetrics& metrics) { step(metrics); },
            [this](const std::string& warning) {
              if (is_first_) fmt::print(stderr, "warning: {}\n", warning);
            },
            [this](const RunPosition& position) {
              if (is_first_ && !options_.is_quiet)
                fmt::print(stderr, "resumed behind step {}\n", position.step);
            }};
  }

 private:
  void step(const StepMetrics& metrics) {
    if (prints_steps_) {
      if (shows_progress_) std::cerr << "\r\x1b[K" << std::flush;
      fmt::print("{}\n", step_line(metrics, options_.steps));
      std::fflush(stdout);
    }
    progress_.update(metrics.step);
  }

  const TrainOptions& options_;
  bool is_first_;
  bool prints_steps_;
  bool shows_progress_;
  Progress progress_;
};

void report_end(const TrainOptions& options, const RunInputs& inputs,
                const std::vector<StepMetrics>& steps) {
  const PlanFile& plan = inputs.plan.plan;
  const RunSummary summary = summarise(steps, plan);
  if (const std::string skipped = skipped_text(summary, steps.size()); !skipped.empty())
    fmt::print(stderr, "warning: {}\n", skipped);
  const double entropy = bigram_entropy(*inputs.documents);
  if (options.is_json) {
    fmt::print("{}", run_json(plan, steps, summary, entropy).pretty());
    return;
  }
  const std::string table = comparison_table(plan, summary);
  if (!table.empty())
    fmt::print("\n{}, {} ranks, packs of {} with samples of {} planned; median of {} steps\n{}",
               plan.model_name, plan.ranks, plan.pack_length, plan.sample_length,
               summary.n_timed_steps, table);
  fmt::print("\n{}\n", loss_line(summary, entropy));
}

}  // namespace

ExitCode train_command(const TrainOptions& options, RunSession& session) {
  const RunRequest request = request_of(options);
  const RankEnvironment place = rank_environment();
  check_ranks(options, place);
  if (options.is_dry_run)
    return dry_run(options, request,
                   place.world_size > 1
                       ? place.world_size
                       : options.n_ranks.value_or(static_cast<int>(read_plan(options.plan).ranks)));
  if (place.world_size == 1 && !is_launched()) {
    const auto planned = static_cast<int>(read_plan(options.plan).ranks);
    const int n_ranks = options.n_ranks.value_or(planned);
    if (n_ranks > 1) return start_ranks(options, request, n_ranks);
  }
  if (is_launched()) end_with_launcher();
  limit_threads(options.threads.value_or(threads_per_rank(place.local_world_size)));
  if (const std::optional<int> shared = launcher_descriptor())
    session.board = std::make_unique<ActivityBoard>(place.local_world_size, *shared);
  session.inputs = load_inputs(request, place.world_size);
  Reporter reporter(options, place.rank == 0);
  const std::vector<StepMetrics> steps = run_steps(request, place, session, reporter.listener());
  if (place.rank == 0) report_end(options, session.inputs, steps);
  return ExitCode::yes;
}

}  // namespace xt
