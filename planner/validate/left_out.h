#pragma once

// What a profile learns from the published steps of a machine, scored on the steps of a source that
// it did not see.

#include <cstddef>
#include <vector>

#include "planner/validate/validate.h"

namespace xt {

/// Sets `left_out` of every priced outcome whose machine has time rows of other sources: the
/// prediction with the profile's products, attention and memory-bound kernels each scaled by what
/// fits those other rows (fit_classes).
///
/// Assumes: as many outcomes as rows, in their order; `profiles` are those that priced them
void price_left_out(const std::vector<PublishedRow>& rows, const Profiles& profiles,
                    std::size_t n_threads, std::vector<RowOutcome>& outcomes);

}  // namespace xt
