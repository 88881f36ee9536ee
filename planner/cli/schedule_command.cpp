#include <fmt/format.h>

#include "costmodel/io/schedule_lines.h"
#include "planner/cli/commands.h"
#include "planner/cli/plan_directory.h"

namespace xt {
namespace {

void refuse_pipeline(Request& request, const Plan& plan) {
  if (plan.strategy.pipeline_parallel > 1)
    request.problem("pipeline_parallel",
                    "not supported: writing and running the schedule of a pipeline",
                    "xt-plan estimate prices its step");
  request.finish();
}

}  // namespace

ExitCode schedule_command(const ScheduleOptions& options, const Surroundings& around) {
  Request request(options.run.file, options.run.flags);
  const Plan plan = resolve(request, around.catalogue);
  refuse_pipeline(request, plan);
  const Estimate answer = estimate(plan);
  if (!options.out) {
    fmt::print("{}", schedule_lines(answer.schedule));
    return answer.fits() ? ExitCode::yes : ExitCode::no;
  }
  write_plan_directory(*options.out, request.fields(), plan, answer,
                       options.may_overwrite ? Overwrite::allow : Overwrite::refuse);
  if (around.is_json) {
    fmt::print("{}", estimate_json(plan, answer).pretty());
  } else {
    fmt::print("{}wrote {}\n", estimate_text(plan, answer, around.style),
               around.style.painted(Meaning::path, options.out->string()));
  }
  return answer.fits() ? ExitCode::yes : ExitCode::no;
}

}  // namespace xt
