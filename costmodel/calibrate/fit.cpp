#include "costmodel/calibrate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace xt {
namespace {

constexpr int most_iterations = 50;
constexpr double widest = 5.0;

double median(Eigen::ArrayXd values) {
  std::sort(values.begin(), values.end());
  const Eigen::Index middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

// Huber's weights of residuals, at a threshold taken from their own spread.
Eigen::ArrayXd huber_weights(const Eigen::ArrayXd& residuals) {
  const Eigen::ArrayXd size = residuals.abs();
  const double threshold = std::max(1.345 * median(size) / 0.6745, 1e-9);
  return (size <= threshold).select(1.0, threshold / size.max(1e-300));
}

KernelScale fit_one(Kernel kernel, const std::vector<Observation>& observations) {
  const auto n = static_cast<Eigen::Index>(observations.size());
  Eigen::ArrayXd ratio(n), weight(n), lowest(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Observation& o = observations[static_cast<std::size_t>(i)];
    ratio[i] = o.predicted / o.measured;
    weight[i] = o.count * o.measured.value;
    lowest[i] = o.floor / o.predicted;
  }
  double scale = 1.0 / median(ratio);
  for (int iteration = 0; iteration < most_iterations; ++iteration) {
    const Eigen::ArrayXd w = weight * huber_weights(scale * ratio - 1.0);
    const double next = (w * ratio).sum() / (w * ratio.square()).sum();
    const bool has_settled = std::abs(next - scale) < 1e-10 * scale;
    scale = next;
    if (has_settled) break;
  }
  const double floor = std::min(widest, std::max(1.0 / widest, lowest.maxCoeff()));
  scale = std::clamp(scale, floor, widest);
  return {kernel, scale, observations.size(), median((scale * ratio - 1.0).abs())};
}

}  // namespace

std::vector<KernelScale> fit_scales(std::span<const Observation> observations) {
  std::vector<std::vector<Observation>> by_kernel(n_kernels);
  for (const Observation& observation : observations)
    if (observation.predicted.value > 0 && observation.measured.value > 0)
      by_kernel[static_cast<std::size_t>(observation.kernel)].push_back(observation);
  std::vector<KernelScale> scales;
  for (std::size_t k = 0; k < n_kernels; ++k)
    if (!by_kernel[k].empty()) scales.push_back(fit_one(static_cast<Kernel>(k), by_kernel[k]));
  return scales;
}

}  // namespace xt
