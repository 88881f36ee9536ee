#pragma once

// From a published row to the plan that prices it, or to the reason why nothing here does. A row is
// asked for as a user would ask for it: by the fields of a run file, so that every default and
// every check is that of `xt-plan estimate`.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/validate/published_row.h"
#include "planner/validate/row_machine.h"

namespace xt {

/// The plan of a row, or why there is none.
struct RowPlan {
  std::optional<Plan> plan;
  std::string reason = {};  ///< one of unsupported_reasons(), where there is no plan
  std::string detail = {};  ///< what the plan's own checks say, where they refuse it
};

/// The plan of `row`, or the first reason found why it has none.
///
/// A micro-batch of sequences is a pack of samples of a sequence's length. Gradients accumulate
/// until the step's batch is full. A rate between nodes and a size of nodes that the row states
/// take the place of the profile's. Assumes: a step without a stated batch is one micro-step;
/// AdamW's state takes the
///          engine's bytes where the row does not say; experts get equally many tokens
RowPlan plan_of(const PublishedRow& row, const Profiles& profiles);

/// Every reason that plan_of() gives.
std::vector<std::string> unsupported_reasons();

}  // namespace xt
