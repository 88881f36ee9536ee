#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "costmodel/diagnostics/nearest.h"
#include "planner/cli/commands.h"
#include "planner/validate/validate.h"

namespace xt {
namespace {

const PublishedRow& row_named(const std::vector<PublishedRow>& rows, const std::string& id) {
  const auto found = std::ranges::find(rows, id, &PublishedRow::id);
  if (found != rows.end()) return *found;
  std::vector<std::string> ids;
  for (const PublishedRow& row : rows) ids.push_back(row.id);
  const auto near = nearest(id, ids);
  throw InputError({error_in(
      "--explain", fmt::format("unknown row `{}`", id),
      near ? fmt::format("did you mean `{}`?", *near) : "--json lists the ids of all rows")});
}

void explain(const std::vector<PublishedRow>& rows, const std::string& id,
             const Surroundings& around) {
  const std::vector<PublishedRow> one = {row_named(rows, id)};
  const RowPlan plan = plan_of(one.front(), profiles_of(one, around.catalogue));
  const RowScore of = score(one, price_rows(one, around.catalogue, 1)).rows.front();
  if (around.is_json) {
    fmt::print("{}", explanation_json(of, plan).pretty());
  } else {
    fmt::print("{}", explanation_text(of, plan, around.style));
  }
}

}  // namespace

ExitCode validate_command(const ValidateOptions& options, const Surroundings& around) {
  const std::vector<PublishedRow> rows = read_published(options.files);
  if (options.explain) {
    explain(rows, *options.explain, around);
    return ExitCode::yes;
  }
  const std::size_t n_threads = std::max(1u, std::thread::hardware_concurrency());
  const Validation validation = score(rows, price_rows(rows, around.catalogue, n_threads));
  if (around.is_json) {
    fmt::print("{}", validation_json(validation).pretty());
  } else {
    fmt::print("{}", validation_text(validation));
  }
  return ExitCode::yes;
}

}  // namespace xt
