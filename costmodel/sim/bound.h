#pragma once

// How long a step takes at least, without running it.

#include <cstdint>
#include <vector>

#include "costmodel/sim/simulate.h"

namespace xt {

/// The largest sum of what the ops of a section ask of one thing that serves one op at a time: a
/// lane, for as long as the op takes alone, or the issuing thread; over all sections, as often as
/// they run. No timeline of `simulate` is shorter. Of each layer there are `copies`; one where
/// nothing is said.
///
/// Assumes: a section starts when the one before it has ended
/// Source:  Graham 1969, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2):
///          no order of work is shorter than the work of its busiest machine
Duration lower_bound(const Schedule& schedule, const Prices& prices,
                     const std::vector<std::int64_t>& copies = {});

}  // namespace xt
