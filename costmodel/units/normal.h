#pragma once

// The normal distribution by functions that have the same bits on every machine, whatever its
// mathematical library rounds to.

#include <cstdint>

namespace xt {

/// e^x.
///
/// Assumes: |x| is at most 700; beyond, it is cut to that
double portable_exp(double x);

/// The value that a share `p` of the standard normal distribution lies below.
///
/// Assumes: 0 < p < 1; the relative error is below 1e-6
/// Source:  Wichura 1988, "Algorithm AS 241: The percentage points of the normal distribution",
///          Applied Statistics 37(3), PPND7
double normal_quantile(double p);

/// The largest of `n` draws from the standard normal distribution, on average; of one draw zero.
///
/// Assumes: n is at least 1; within 0.03 of the integral
/// Source:  Blom 1958, "Statistical estimates and transformed beta-variables", chapter 6
double largest_normal_of(std::int64_t n);

}  // namespace xt
