#pragma once

// Efficiency as data: values measured at points, interpolated between them on logarithmic axes and
// held constant beyond the ends. Knows no hardware and no kernel.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace xt {

/// Points joined by straight lines in log x; exact at the points, constant beyond the ends.
struct Curve {
  std::vector<std::pair<double, double>> points;  ///< x and value; x is positive and ascends

  bool operator==(const Curve&) const = default;

  /// The value at `x`; one for a curve without points, which is a factor that says nothing.
  [[nodiscard]] double at(double x) const;
};

/// What is wrong with the points of `curve`, and at which of them.
struct CurveProblem {
  std::size_t point = 0;
  std::string message;
};

/// The first point that is not positive or does not ascend, if any.
std::optional<CurveProblem> problem(const Curve& curve);

/// Values over several axes, at scattered points.
///
/// One axis is read as a Curve. Over more axes the value is the mean of the points' values weighted
/// by distance⁻⁴ in log2 of the axes: exact at the points and never outside their range.
///
/// Source:  Shepard 1968, "A two-dimensional interpolation function for irregularly-spaced data",
///          Proc. 23rd ACM National Conference, pp. 517–524; the power 4 keeps a far point from
///          pulling on a near one
struct Surface {
  /// Each row: the coordinates of a point, counts of one or more, then its value. With one axis
  /// the rows ascend; no two points coincide.
  std::vector<std::vector<double>> points;

  bool operator==(const Surface&) const = default;

  /// The value at `x`, one number per axis; one for a surface without points.
  [[nodiscard]] double at(std::span<const double> x) const;
};

/// The first point of `surface` that breaks its rules for `n_axes` axes, if any.
std::optional<CurveProblem> problem(const Surface& surface, std::size_t n_axes);

}  // namespace xt
