#pragma once

// How long a step takes at least, without running it.

#include <cstdint>
#include <vector>

#include "costmodel/sim/simulate.h"

namespace xt {

/// What counts of a section: all of it, or what a chunk of a pipeline does before it hands over,
/// which leaves out gathers and reductions.
enum class BoundOf : std::uint8_t { all, handing_over };

/// For each section, the largest sum of what its ops ask of one thing that serves one op at a time:
/// a lane, for as long as the op takes alone, or the issuing thread. Of each layer there are
/// `copies`; one where nothing is said.
std::vector<Duration> section_bounds(const Schedule& schedule, const Prices& prices,
                                     BoundOf of = BoundOf::all,
                                     const std::vector<std::int64_t>& copies = {});

/// The sum of these over all sections, as often as they run. No timeline of `simulate` is shorter.
///
/// Assumes: a section starts when the one before it has ended
/// Source:  Graham 1969, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2):
///          no order of work is shorter than the work of its busiest machine
Duration lower_bound(const Schedule& schedule, const Prices& prices,
                     const std::vector<std::int64_t>& copies = {});

}  // namespace xt
