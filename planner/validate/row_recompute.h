#pragma once

// From what a published row says of recompute to the fields of a run file.

#include <optional>
#include <string>

#include "planner/validate/published_row.h"

namespace xt {

/// Ops that `row` recomputes where not all of a layer's, as recompute_ops spells them: those of the
/// modules that it lists, in any order, or those of a policy that it names.
std::optional<std::string> dropped_ops(const PublishedRow& row);

/// How many layers of `row` recompute something; none where nothing here says what.
std::optional<std::string> recompute_of(const PublishedRow& row);

}  // namespace xt
