#pragma once

// How fast the planes of rotary position embedding turn.

#include <cstdint>
#include <vector>

#include "costmodel/ir/schedule.h"

namespace xt {

/// By plane, radians from one position to the next, as the model scales them.
///
/// Shapes:  D/2 frequencies of D columns
/// Source:  Su et al. 2021, "RoFormer", section 3.2.2
std::vector<float> rope_frequencies(std::int64_t D, const ModelConstants& constants);

}  // namespace xt
