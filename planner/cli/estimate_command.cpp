#include <fmt/format.h>

#include "planner/cli/commands.h"
#include "planner/estimate/estimate.h"

namespace xt {

ExitCode estimate_command(const RunOptions& options, const Surroundings& around) {
  Request request(options.file, options.flags);
  const Plan plan = resolve(request, around.catalogue);
  const Estimate answer = estimate(plan);
  if (around.is_json) {
    fmt::print("{}", estimate_json(plan, answer).pretty());
  } else {
    fmt::print("{}", estimate_text(plan, answer, around.style));
  }
  return answer.fits ? ExitCode::yes : ExitCode::no;
}

}  // namespace xt
