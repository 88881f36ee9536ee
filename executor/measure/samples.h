#pragma once

// Repeats of one measurement. Medians, because other programs only ever make a time longer.

#include <cstdint>
#include <vector>

namespace xt {

/// Values of one quantity, measured again and again.
struct Samples {
  std::vector<double> values;

  /// Assumes: there is a value
  [[nodiscard]] double median() const;
  /// (maximum − minimum) / median.
  ///
  /// Assumes: there is a value, and the median is not zero
  [[nodiscard]] double spread_ratio() const;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
};

/// The median of `values`.
///
/// Assumes: there is a value
double median_of(std::vector<double> values);

}  // namespace xt
