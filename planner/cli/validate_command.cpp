#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "costmodel/diagnostics/nearest.h"
#include "planner/cli/commands.h"
#include "planner/validate/validate.h"

namespace xt {
namespace {

const RowScore& row_named(const Validation& validation, const std::string& id) {
  std::vector<std::string> ids;
  for (const RowScore& of : validation.rows) {
    if (of.row.id == id) return of;
    ids.push_back(of.row.id);
  }
  const auto near = nearest(id, ids);
  throw InputError({error_in(
      "--explain", fmt::format("unknown row `{}`", id),
      near ? fmt::format("did you mean `{}`?", *near) : "--json lists the ids of all rows")});
}

void print(const Validation& validation, bool is_json) {
  if (is_json) {
    fmt::print("{}", validation_json(validation).pretty());
  } else {
    fmt::print("{}", validation_text(validation));
  }
}

void explain(const RowScore& of, const Surroundings& around) {
  const RowPlan plan = plan_of(of.row, profiles_of({of.row}, around.catalogue));
  if (around.is_json) {
    fmt::print("{}", explanation_json(of, plan).pretty());
  } else {
    fmt::print("{}", explanation_text(of, plan, around.style));
  }
}

}  // namespace

ExitCode validate_command(const ValidateOptions& options, const Surroundings& around) {
  const std::vector<PublishedRow> rows = read_published(options.files);
  const std::size_t n_threads = std::max(1u, std::thread::hardware_concurrency());
  const Validation validation = score(rows, price_rows(rows, around.catalogue, n_threads));
  if (options.explain) {
    explain(row_named(validation, *options.explain), around);
  } else {
    print(validation, around.is_json);
  }
  return ExitCode::yes;
}

}  // namespace xt
