#include "planner/validate/statistics.h"

#include <algorithm>
#include <cmath>

namespace xt {

std::optional<double> percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - std::floor(at));
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  std::vector<double> absolute;
  for (const double error : errors) absolute.push_back(std::abs(error));
  return {errors.size(), percentile(absolute, 0.5), percentile(absolute, 0.9),
          percentile(errors, 0.5)};
}

}  // namespace xt
