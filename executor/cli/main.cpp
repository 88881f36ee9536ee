// xt-run: arguments in, options out. Everything else is in the commands.

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"
#include "costmodel/report/style.h"
#include "executor/cli/commands.h"
#include "executor/cli/reporter.h"
#include "executor/measure/measure.h"
#include "executor/runtime/allocator.h"

namespace {

using namespace xt;  // NOLINT(google-build-using-namespace): a main has no namespace of its own

constexpr const char* device_help =
    "cpu, cuda, or cpu-aten: the kernels of GPUs on the CPU (default cpu)";

struct Arguments {
  TrainOptions train;
  MeasureOptions measure;
  std::filesystem::path watched;  ///< plan directory of `status`
  bool is_json = false;
};

void describe_measure(CLI::App& measure, MeasureOptions& options) {
  measure.add_option("--out", options.out, "Profile to write")->required();
  measure.add_option("--name", options.name, "Name of the profile (default: the file's)");
  measure.add_option("--nproc", options.n_ranks, "Ranks that measure at once (default 1)");
  measure.add_option("--threads", options.threads,
                     "Threads per rank (default: a share of the cores)");
  measure.add_flag("--quick", options.is_quick,
                   "A minute; on a CPU the sizes of small models only");
  measure.add_option("--device", options.device, device_help);
  measure.add_flag("--bf16", options.has_bf16,
                   "Also kernels in bf16, for plans with --compute-dtype bf16");
  measure.add_flag("--force", options.may_overwrite, "Overwrite the profile");
  measure.add_flag("-q,--quiet", options.is_quiet, "No progress");
  measure.footer("Example: xt-run measure --out profiles/this_machine.yaml --nproc 2");
}

void describe_status(CLI::App& status, std::filesystem::path& directory) {
  status.add_option("plan", directory, "Plan directory that `xt-run train` runs or ran")
      ->required();
  status.footer(
      "Exit code 0: it runs or is finished; 1: it failed, or its process is gone; 2: there is "
      "none.\n"
      "Example: xt-run status plans/tiny");
}

void describe(CLI::App& app, Arguments& arguments) {
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", arguments.is_json, "One JSON document on standard output");

  CLI::App* train = app.add_subcommand("train", "Train a plan for real");
  TrainOptions& options = arguments.train;
  train->add_option("plan", options.plan, "Plan directory, as xt-plan writes it")->required();
  train->add_option("--data", options.data, "Text, a folder of it, .jsonl, or .bin/.idx")
      ->required();
  train->add_option("--steps", options.steps, "Optimizer steps")->required();
  train->add_option("--nproc", options.n_ranks,
                    "Ranks to start on this host (default: the plan's)");
  train->add_option("--threads", options.threads,
                    "Threads per rank (default: a share of the cores)");
  train->add_option("--device", options.device, device_help);
  train->add_option("--record-steps", options.record_steps,
                    "Steps to write to measured.jsonl, such as 3 or 3-5,8");
  train->add_option("--weights", options.weights, "Safetensors to start from (default: drawn)");
  train->add_option("--save-weights", options.save_weights,
                    "Folder for the trained weights, as Hugging Face transformers loads it");
  train->add_option("--save-dtype", options.save_dtype,
                    "Their type, fp32 or bf16 (default: the plan's compute type)");
  train->add_option("--checkpoint-every", options.checkpoint_every,
                    "Steps between checkpoints (default: none)");
  train->add_option("--checkpoints", options.checkpoints,
                    "Folder of checkpoints (default: checkpoints in the plan's)");
  train->add_option("--keep-checkpoints", options.keep_checkpoints,
                    "How many of the latest stay (default 2)");
  train->add_flag("--resume", options.resumes, "Go on from the latest checkpoint that is whole");
  train->add_option("--stall-timeout", options.stall_timeout_s,
                    "Seconds in which nothing moves that end the run (default: never)");
  train->add_flag("--dry-run", options.is_dry_run,
                  "Check all that is read, say what would happen, and stop");
  train->add_flag("--force", options.may_overwrite, "Overwrite what an earlier run wrote");
  train->add_flag("--xtuner-lines", options.prints_xtuner,
                  "Log lines of all ranks as XTuner V1 prints them, on standard error");
  train->add_flag("-q,--quiet", options.is_quiet, "No line per step and no progress");
  train->footer("Example: xt-run train plans/tiny --data book.txt --steps 50 --record-steps 10-12");

  describe_measure(*app.add_subcommand("measure", "Benchmark this machine and write its profile"),
                   arguments.measure);
  describe_status(*app.add_subcommand("status", "How a run stands, while it goes on or after"),
                  arguments.watched);
  app.add_subcommand("devices", "What this machine can run");
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "error: {}\n", error.what());
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())
    fmt::print(stderr, "\nhint: {}\n", did_you_mean(argv[1], verbs, "verbs are"));
  return status(ExitCode::bad_input);
}

/// This process's rank, or 0 where that cannot be told.
int own_rank() {
  try {
    return rank_environment().rank;
  } catch (const InputError&) {
    return 0;
  }
}

void print_error(const InputError& error, const char* outcome) {
  const char* term = std::getenv("TERM");
  const StreamFacts facts{isatty(STDERR_FILENO) != 0, std::getenv("NO_COLOR") != nullptr,
                          term == nullptr ? "" : term};
  const bool is_colored = wants_color(ColorMode::automatic, facts);
  fmt::print(stderr, "{}", render(error, {is_colored, outcome}));
}

/// What has not happened where a command fails.
const char* outcome_of(const CLI::App& app) {
  if (app.got_subcommand("measure")) return "nothing was measured";
  return app.got_subcommand("status") ? "there is no run to tell of" : "nothing was trained";
}

/// Prints what stopped this rank, and tells the others unless one of them is the cause.
int failed(const std::exception& error, const RunSession& session, const char* outcome) {
  const bool has_peers = session.world != nullptr && session.world->size() > 1;
  const bool is_lost_peer = dynamic_cast<const PeerLost*>(&error) != nullptr;
  const auto* input = dynamic_cast<const InputError*>(&error);
  if (has_peers && !is_lost_peer) session.rendezvous->announce_failure();
  const int rank = own_rank();
  const bool is_said_by_rank_0 = input != nullptr && !session.has_started && rank != 0;
  if (input != nullptr && !is_said_by_rank_0) print_error(*input, outcome);
  if (input == nullptr)
    fmt::print(stderr, "error: {}{}\n", has_peers ? fmt::format("rank {}: ", rank) : "",
               failure_text(error));
  return status(input != nullptr ? ExitCode::bad_input : ExitCode::failed);
}

/// Nothing of a run that stands still can be waited for.
[[noreturn]] void end_stalled(const std::optional<std::string>& text) {
  if (text) fmt::print(stderr, "error: {}\n", *text);
  std::fflush(nullptr);
  std::_Exit(status(ExitCode::failed));
}

}  // namespace

int main(int argc, char** argv) {
  install_allocator();
  // Each checkpoint has a thread of its own; what these leave behind must not be an arena each.
  mallopt(M_ARENA_MAX, 2);
  // A file beyond the limit of its size is an error of who writes it, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  Arguments arguments;
  arguments.train.arguments.assign(argv, argv + argc);
  arguments.train.on_stall = end_stalled;
  arguments.measure.arguments = arguments.train.arguments;
  CLI::App app("Trains what xt-plan planned, for real.", "xt-run");
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, argc, argv);
  }
  arguments.train.is_json = arguments.is_json;
  const auto session = std::make_unique<RunSession>();
  try {
    if (app.got_subcommand("devices")) return status(devices_command(arguments.is_json));
    if (app.got_subcommand("measure")) return status(measure_command(arguments.measure));
    if (app.got_subcommand("status"))
      return status(status_command(arguments.watched, arguments.is_json));
    return status(train_command(arguments.train, *session));
  } catch (const std::exception& error) {
    const int code = failed(error, *session, outcome_of(app));
    if (session->world == nullptr) return code;
    // A group that lost a rank may have threads that never end; nobody waits for them.
    std::fflush(nullptr);
    std::_Exit(code);
  }
}
