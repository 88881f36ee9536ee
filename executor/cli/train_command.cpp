#include <fmt/format.h>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/cli/commands.h"
#include "executor/cli/reporter.h"
#include "executor/cli/run_report.h"
#include "executor/data/bigram_entropy.h"
#include "executor/launch/launcher.h"
#include "executor/launch/threads.h"
#include "executor/observe/run_record.h"

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
  request.device = device_choice(options.device);
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

/// Runs `request`, and says how that goes and ends.
std::vector<StepMetrics> run_reported(const TrainOptions& options, const RunRequest& request,
                                      const RankEnvironment& place, RunSession& session) {
  Reporter reporter(options, request, session.inputs.plan.plan, place);
  try {
    std::vector<StepMetrics> steps = run_steps(request, place, session, reporter.listener());
    reporter.finished();
    return steps;
  } catch (const std::exception& error) {
    reporter.failed(error);
    throw;
  }
}

}  // namespace

ExitCode train_command(const TrainOptions& options, RunSession& session) {
  const RunRequest request = request_of(options);
  const RankEnvironment place = rank_environment();
  check_ranks(options, place);
  const bool starts_ranks = place.world_size == 1 && !is_launched();
  const int n_ranks =
      starts_ranks ? options.n_ranks.value_or(static_cast<int>(read_plan(options.plan).ranks))
                   : place.world_size;
  check_devices(request.device, starts_ranks ? n_ranks : place.local_world_size);
  if (options.is_dry_run) return dry_run(options, request, n_ranks);
  if (starts_ranks) check_not_running(options.plan);
  if (starts_ranks && n_ranks > 1) return start_ranks(options, request, n_ranks);
  if (is_launched()) end_with_launcher();
  limit_threads(options.threads.value_or(threads_per_rank(place.local_world_size)));
  if (const std::optional<int> shared = launcher_descriptor())
    session.board = std::make_unique<ActivityBoard>(place.local_world_size, *shared);
  session.inputs = load_inputs(request, place.world_size);
  const std::vector<StepMetrics> steps = run_reported(options, request, place, session);
  if (place.rank == 0) report_end(options, session.inputs, steps);
  return ExitCode::yes;
}

}  // namespace xt
