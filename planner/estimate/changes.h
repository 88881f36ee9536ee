#pragma once

// Which changes of a run may lower its peak. Whether an engine accepts one is for the checks of a
// plan to say.

#include <vector>

#include "planner/estimate/price_list.h"

namespace xt {

/// What was left to the planner, as `plan` resolved it.
Change resolved_choices(const Plan& plan);

/// So many times as many devices, and as many fewer micro-steps where these divide.
Change more_devices(const Plan& plan, std::int64_t times);

/// The changes that price_list() names; of one field, the one that changes least first. `fits`
/// spares those that only a plan that does not fit asks for.
std::vector<Change> changes_of(const RunFile& run, const Plan& plan, bool fits);

}  // namespace xt
