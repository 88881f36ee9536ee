// xt-plan: arguments in, options out. Everything else is in the commands.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"
#include "costmodel/document/reference.h"
#include "planner/cli/commands.h"
#include "planner/cli/freed_pages.h"

namespace {

using namespace xt;  // NOLINT(google-build-using-namespace): a main has no namespace of its own

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Style style_of(const std::string& mode, int stream) {
  const StreamFacts facts{isatty(stream) != 0, !from_environment("NO_COLOR").empty(),
                          from_environment("TERM")};
  const ColorMode color = mode == "always"  ? ColorMode::always
                          : mode == "never" ? ColorMode::never
                                            : ColorMode::automatic;
  return {wants_color(color, facts)};
}

// Flags of a run, one per key of a run file, collected as text: the run file's reader judges them.
class RunFlags {
 public:
  void add_to(CLI::App& app, RunOptions& options) {
    app.add_option_function<std::string>(
        "run", [&options](const std::string& path) { options.file = path; },
        "Run file (schema xt.run/1); flags override it");
    for (const KeyReference& key : reference<RunFile>()) {
      if (key.key == "schema") continue;
      std::string flag = "--" + key.key;
      std::replace(flag.begin(), flag.end(), '_', '-');
      app.add_option_function<std::string>(
             flag,
             [&options, field = key.key](const std::string& text) {
               options.flags.emplace_back(field, text);
             },
             key.doc)
          ->group("Run");
    }
  }
};

struct Arguments {
  std::string color = "auto";
  bool is_json = false;
  EstimateOptions estimate;
  ScheduleOptions schedule;
  SearchOptions search;
  CompareOptions compare;
  CalibrateOptions calibrate;
  ValidateOptions validate;
  std::string what;
};

void describe_search(CLI::App& app, SearchOptions& options, RunFlags& flags) {
  CLI::App* search =
      app.add_subcommand("search", "Which step is best, of all that a run leaves open?");
  flags.add_to(*search, options.run);
  search->add_option("--tokens-per-step", options.tokens_per_step,
                     "Of all ranks; gradient_accumulation follows (default: the run's own)");
  search->add_option("--top", options.n_ranked, "How many of the best to show (default 10)");
  search->add_option("--out", options.out, "Plan directory of the best, to write");
  search->add_flag("--force", options.may_overwrite, "Overwrite what is there");
  search->footer(
      "A key that is given is fixed; of the others these are searched: expert_parallel,"
      " dispatch, shard_ranks, sequence_parallel, context_parallel, tensor_parallel,"
      " pipeline_parallel, virtual_stages, zero, intra_layer_micro_batches, swap_optimizer, "
      "recompute, recompute_ops, swap,"
      " reshard_after_forward, loss_chunk");
}

void describe(CLI::App& app, Arguments& arguments, RunFlags& flags) {
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--color", arguments.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("--json", arguments.is_json, "One JSON document on standard output");

  CLI::App* estimate = app.add_subcommand("estimate", "Does it fit, and how long is a step?");
  flags.add_to(*estimate, arguments.estimate.run);
  estimate->add_flag("--prices", arguments.estimate.prices,
                     "Who is alive at the peak, and what every change that lowers it costs");
  estimate->footer(
      "Example: xt-plan estimate --model qwen3_30b_a3b --machine h800_sxm --devices 64"
      " --engine xtuner_v1 --pack-length 16384 --sample-length 4096");

  CLI::App* schedule = app.add_subcommand("schedule", "Write the plan directory that xt-run runs");
  flags.add_to(*schedule, arguments.schedule.run);
  schedule->add_option("--out", arguments.schedule.out, "Plan directory to write");
  schedule->add_flag("--force", arguments.schedule.may_overwrite, "Overwrite what is there");

  describe_search(app, arguments.search, flags);

  CLI::App* compare = app.add_subcommand("compare", "Predicted against measured, op by op");
  compare->add_option("plan", arguments.compare.plan, "Plan directory with measured.jsonl")
      ->required();
  compare->add_option("--trace", arguments.compare.trace,
                      "Chrome trace of all recorded steps and ranks, to write");
  compare->add_flag("--force", arguments.compare.may_overwrite, "Overwrite what is there");

  CLI::App* calibrate = app.add_subcommand("calibrate", "Fit scales to measured plans");
  calibrate->add_option("plans", arguments.calibrate.fit_on, "Measured plan directories")
      ->required();
  calibrate->add_option("--score", arguments.calibrate.score_on, "Measured plans not fitted to");
  calibrate->add_option("--out", arguments.calibrate.out, "Overlay to write")->required();
  calibrate->add_flag("--force", arguments.calibrate.may_overwrite, "Overwrite what is there");

  CLI::App* validate = app.add_subcommand("validate", "Predicted against published, row by row");
  validate->add_option("files", arguments.validate.files, "Files of published_measurements/1")
      ->required();
  validate->add_option("--explain", arguments.validate.explain, "One row, by its id");

  CLI::App* list = app.add_subcommand("list", "Models, machines, engines, or keys of a run file");
  list->add_option("what", arguments.what, "models, machines, engines or keys")
      ->required()
      ->check(CLI::IsMember({"models", "machines", "engines", "keys"}));
}

ExitCode dispatch(const CLI::App& app, const Arguments& arguments) {
  const Surroundings around{Catalogue{XT_DATA_ROOT}, style_of(arguments.color, STDOUT_FILENO),
                            arguments.is_json, isatty(STDERR_FILENO) != 0};
  if (app.got_subcommand("estimate")) return estimate_command(arguments.estimate, around);
  if (app.got_subcommand("schedule")) return schedule_command(arguments.schedule, around);
  if (app.got_subcommand("search")) return search_command(arguments.search, around);
  if (app.got_subcommand("compare")) return compare_command(arguments.compare, around);
  if (app.got_subcommand("calibrate")) return calibrate_command(arguments.calibrate, around);
  if (app.got_subcommand("validate")) return validate_command(arguments.validate, around);
  return list_command(arguments.what, around);
}

// An answer that is not whole on its way out is none: a disk may be full behind a redirection.
int finished(ExitCode code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status(code);
  fmt::print(stderr, "error: standard output cannot be written: the answer is not whole\n");
  return status(ExitCode::bad_input);
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

}  // namespace

int main(int argc, char** argv) {
  keep_freed_pages();
  Arguments arguments;
  RunFlags flags;
  CLI::App app("Predicts memory, time and MFU of training large decoder models.", "xt-plan");
  describe(app, arguments, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, argc, argv);
  }
  try {
    return finished(dispatch(app, arguments));
  } catch (const InputError& error) {
    const Style style = style_of(arguments.color, STDERR_FILENO);
    fmt::print(stderr, "{}", render(error, {style.is_colored, "nothing was planned"}));
    return status(ExitCode::bad_input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return status(ExitCode::bad_input);
  }
}
