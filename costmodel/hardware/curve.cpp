#include "costmodel/hardware/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

double lerp_in_log(double x, double x0, double y0, double x1, double y1) {
  const double from = std::log2(x0);
  return std::lerp(y0, y1, (std::log2(x) - from) / (std::log2(x1) - from));
}

double along_one_axis(const std::vector<std::vector<double>>& points, double x) {
  const auto above = std::ranges::lower_bound(points, x, {}, [](const auto& p) { return p[0]; });
  if (above == points.end()) return points.back()[1];
  if ((*above)[0] == x || above == points.begin()) return (*above)[1];
  const auto& below = *(above - 1);
  return lerp_in_log(x, below[0], below[1], (*above)[0], (*above)[1]);
}

// Squared distance in log2 of the axes; below one every count is as near as one.
double square_distance(std::span<const double> x, const std::vector<double>& point) {
  double square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == point[i]) continue;
    const double difference = std::log2(std::max(x[i], 1.0)) - std::log2(point[i]);
    square += difference * difference;
  }
  return square;
}

}  // namespace

double Curve::at(double x) const {
  if (points.empty()) return 1;
  const auto above = std::ranges::lower_bound(points, x, {}, &std::pair<double, double>::first);
  if (above == points.end()) return points.back().second;
  if (above->first == x || above == points.begin()) return above->second;
  const auto& below = *(above - 1);
  return lerp_in_log(x, below.first, below.second, above->first, above->second);
}

double Surface::at(std::span<const double> x) const {
  if (points.empty()) return 1;
  XT_CHECK(points[0].size() == x.size() + 1, points[0].size(), x.size());
  if (x.size() == 1) return along_one_axis(points, x[0]);
  double weighted = 0;
  double weights = 0;
  for (const auto& point : points) {
    const double square = square_distance(x, point);
    if (square == 0) return point.back();
    const double weight = 1 / (square * square);
    weighted += weight * point.back();
    weights += weight;
  }
  return weighted / weights;
}

std::optional<CurveProblem> problem(const Curve& curve) {
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto [x, y] = curve.points[i];
    if (x <= 0 || y <= 0)
      return CurveProblem{i, fmt::format("point [{}, {}] is not positive", x, y)};
    if (i > 0 && x <= curve.points[i - 1].first)
      return CurveProblem{
          i, fmt::format("point at {} does not ascend after {}", x, curve.points[i - 1].first)};
  }
  return std::nullopt;
}

std::optional<CurveProblem> problem(const Surface& surface, std::size_t n_axes) {
  for (std::size_t i = 0; i < surface.points.size(); ++i) {
    const auto& point = surface.points[i];
    if (point.size() != n_axes + 1)
      return CurveProblem{i, fmt::format("point has {} numbers, {} axes need {}", point.size(),
                                         n_axes, n_axes + 1)};
    const bool counts =
        std::all_of(point.begin(), point.end() - 1, [](double x) { return x >= 1; });
    if (!counts || point.back() <= 0)
      return CurveProblem{i, "a coordinate is less than one, or the value is not positive"};
    if (n_axes == 1 && i > 0 && point[0] <= surface.points[i - 1][0])
      return CurveProblem{i, fmt::format("point at {} does not ascend after {}", point[0],
                                         surface.points[i - 1][0])};
    for (std::size_t j = 0; j < i; ++j)
      if (std::equal(point.begin(), point.end() - 1, surface.points[j].begin()))
        return CurveProblem{i, fmt::format("point is at the same place as point {}", j + 1)};
  }
  return std::nullopt;
}

}  // namespace xt
