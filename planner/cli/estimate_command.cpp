#include <fmt/format.h>

#include "planner/cli/commands.h"
#include "planner/estimate/estimate.h"
#include "planner/estimate/price_list.h"

namespace xt {

ExitCode estimate_command(const EstimateOptions& options, const Surroundings& around) {
  Request request(options.run.file, options.run.flags);
  const Plan plan = resolve(request, around.catalogue);
  const Estimate answer = estimate(plan);
  const bool is_helpful = !answer.fits() && !around.is_json;
  PriceList list;
  if (options.prices || is_helpful) list = price_list(request, plan, answer);
  if (around.is_json) {
    Json json = estimate_json(plan, answer);
    if (options.prices) add_price_list(json, answer, list);
    fmt::print("{}", json.pretty());
  } else {
    fmt::print("{}", estimate_text(plan, answer, around.style));
    if (options.prices) fmt::print("{}", price_list_text(answer, list));
    fmt::print("{}", ways_to_fit_text(list));
  }
  return answer.fits() ? ExitCode::yes : ExitCode::no;
}

}  // namespace xt
