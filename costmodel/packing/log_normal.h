#pragma once

// The log-normal distribution: its quantiles, from which samples are drawn, and its mean between
// two bounds. Quantiles use no function of the mathematical library that libraries round
// differently, so drawn lengths are the same bits everywhere.

#include <cstdint>

namespace xt {

/// The value that a share `p` of a log-normal distribution lies below.
///
/// Assumes: 0 < p < 1; the relative error is below 1e-6 · (1 + sigma)
/// Source:  Wichura 1988, "Algorithm AS 241: The percentage points of the normal distribution",
///          Applied Statistics 37(3), PPND7
double log_normal_quantile(double median, double sigma, double p);

/// The mean of a log-normal distribution whose values outside lowest to longest are moved to the
/// nearer bound.
///
/// Source:  Johnson, Kotz, Balakrishnan 1994, "Continuous univariate distributions" 1, chapter 14,
///          moments of the truncated distribution
double clamped_log_normal_mean(double median, double sigma, double lowest, double longest);

}  // namespace xt
