#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "planner/cli/commands.h"
#include "planner/cli/plan_directory.h"
#include "planner/lower/engine.h"
#include "planner/search/search.h"

namespace xt {
namespace {

void write_winner(const Search& found, const std::filesystem::path& out, Overwrite overwrite) {
  const Candidate& best = found.space.candidates[*found.winner()];
  const Plan plan = plan_of(found.space, best);
  write_plan_directory(out, run_file_of(found.space, best), plan, estimate(plan), overwrite);
}

}  // namespace

ExitCode search_command(const SearchOptions& options, const Surroundings& around) {
  Request request(options.run.file, options.run.flags);
  const Overwrite overwrite = options.may_overwrite ? Overwrite::allow : Overwrite::refuse;
  if (options.out) check_plan_directory(*options.out, overwrite);
  Subject subject = subject_of(request, around.catalogue);
  if (options.n_ranked < 1)
    request.problem("top", fmt::format("is {}, must be at least 1", options.n_ranked));
  const RunFile& given = request.fields();
  const EngineRules* rules = engine_named(given.engine.value_or(std::string(default_engine)));
  const bool may_have_stages =
      rules != nullptr && rules->has_pipelines && given.pipeline_parallel != 1;
  if (options.out && may_have_stages)
    request.problem("pipeline_parallel", "not supported: writing the schedule of a pipeline",
                    "set it to 1, or leave out --out");
  SearchSettings settings;
  settings.tokens_per_step = options.tokens_per_step;
  settings.n_ranked = static_cast<std::size_t>(std::max<std::int64_t>(1, options.n_ranked));
  settings.n_threads = std::max(1u, std::thread::hardware_concurrency());
  settings.progress = around.shows_progress ? &std::cerr : nullptr;
  const Search found = search(request, std::move(subject), settings);
  if (options.out && found.winner()) write_winner(found, *options.out, overwrite);
  if (around.is_json) {
    fmt::print("{}", search_json(found).pretty());
  } else {
    fmt::print("{}", search_text(found, around.style));
    if (options.out && found.winner())
      fmt::print("wrote {}\n", around.style.painted(Meaning::path, options.out->string()));
  }
  return found.winner() ? ExitCode::yes : ExitCode::no;
}

}  // namespace xt
