#pragma once

// The rules of schedule.h, checked on a finished schedule without trusting whoever made it.

#include <string>
#include <vector>

#include "costmodel/ir/schedule.h"

namespace xt {

/// Every violation of a rule as a sentence; empty for a valid schedule.
std::vector<std::string> verify(const Schedule& schedule);

}  // namespace xt
