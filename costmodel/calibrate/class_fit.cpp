#include "costmodel/calibrate/class_fit.h"

#include <Eigen/Dense>
#include <algorithm>

namespace xt {

ClassFactors fit_classes(std::span<const StepShares> steps) {
  constexpr double step_deviation = 0.1, class_deviation = 0.25, widest = 3;
  constexpr double prior = (step_deviation / class_deviation) * (step_deviation / class_deviation);
  using Vector = Eigen::Matrix<double, n_scaled_classes, 1>;
  Eigen::Matrix<double, n_scaled_classes, n_scaled_classes> normal =
      prior * decltype(normal)::Identity();
  Vector right = Vector::Constant(prior);
  for (const StepShares& step : steps) {
    const Vector shares = Eigen::Map<const Vector>(step.of_class.data());
    normal += shares * shares.transpose();
    right += (1 - step.rest) * shares;
  }
  const Vector solved = normal.ldlt().solve(right);
  ClassFactors factors{};
  for (std::size_t c = 0; c < factors.size(); ++c)
    factors[c] = std::clamp(solved[static_cast<Eigen::Index>(c)], 1 / widest, widest);
  return factors;
}

}  // namespace xt
