#pragma once

// What is said of many errors at once.

#include <optional>
#include <vector>

namespace xt {

/// The value that a share `p` of `values` does not exceed, from 0 to 1, linear between neighbours;
/// none of no values.
///
/// Source:  Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages", definition 7
std::optional<double> percentile(std::vector<double> values, double p);

/// Signed errors of one kind, summed up.
struct ErrorSummary {
  std::size_t n = 0;
  std::optional<double> median_abs;
  std::optional<double> p90_abs;
  std::optional<double> bias;  ///< median of the signed errors
};

/// The summary of `errors`.
ErrorSummary summary_of(const std::vector<double>& errors);

}  // namespace xt
