#pragma once

// What a plan leaves on disk for xt-run and for xt-plan compare.

#include <filesystem>

#include "costmodel/io/files.h"
#include "planner/estimate/estimate.h"
#include "planner/plan/run_file.h"

namespace xt {

/// Throws: InputError when there is a plan in `out` that may not be overwritten
void check_plan_directory(const std::filesystem::path& out, Overwrite overwrite);

/// Writes `plan`, what it was asked with and what it will cost to the folder `out`. plan.json goes
/// last: a directory without it is no plan, so a half-written one is never run.
///
/// Throws: as check_plan_directory; std::system_error
void write_plan_directory(const std::filesystem::path& out, const RunFile& fields, const Plan& plan,
                          const Estimate& answer, Overwrite overwrite);

}  // namespace xt
