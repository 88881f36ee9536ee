#pragma once

// How many cores a rank may keep busy. Ranks that share a host must not take each other's cores,
// or no time that they measure means anything.

namespace xt {

/// The cores this process may run on.
int available_cores();

/// The default threads per rank: an equal share of the cores, at least one.
int threads_per_rank(int ranks_on_host);

/// Makes ATen use `threads` threads in this process.
///
/// Assumes: called before the first op; OMP_NUM_THREADS was set likewise by whoever started it
void limit_threads(int threads);

}  // namespace xt
