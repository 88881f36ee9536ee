#include <fmt/format.h>

#include "costmodel/io/files.h"
#include "planner/cli/commands.h"
#include "planner/compare/compare.h"

namespace xt {

ExitCode compare_command(const CompareOptions& options, const Surroundings& around) {
  const Overwrite overwrite = options.may_overwrite ? Overwrite::allow : Overwrite::refuse;
  if (options.trace) check_overwrite(*options.trace, overwrite);
  const MeasuredPlan plan = read_measured_plan(options.plan);
  const Comparison comparison = compare(plan);
  if (options.trace) write_file(*options.trace, chrome_trace(plan).dump(), overwrite);
  if (around.is_json) {
    fmt::print("{}", comparison_json(plan, comparison).pretty());
  } else {
    fmt::print("{}", comparison_text(plan, comparison));
    if (options.trace)
      fmt::print("trace of all recorded steps and ranks, for Perfetto: {}\n",
                 around.style.painted(Meaning::path, options.trace->string()));
  }
  return ExitCode::yes;
}

}  // namespace xt
