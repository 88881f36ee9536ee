#include "executor/measure/samples.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"

namespace xt {

double median_of(std::vector<double> values) {
  XT_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double Samples::median() const { return median_of(values); }

double Samples::spread_ratio() const {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  XT_CHECK(least != values.end());
  return (*most - *least) / median();
}

}  // namespace xt
