#pragma once

// The rules of schedule.h, asked of a timeline: whoever made it, by arithmetic or by running, must
// have kept them.

#include <string>
#include <vector>

#include "costmodel/ir/timeline.h"

namespace xt {

/// Every rule that `timeline` breaks, as a sentence.
std::vector<std::string> broken_rules(const Schedule& schedule, const Timeline& timeline);

}  // namespace xt
