#include "costmodel/packing/log_normal.h"

#include <cmath>
#include <numbers>

#include "costmodel/units/normal.h"

namespace xt {
namespace {

// The share of a standard normal distribution below `z`.
double normal_share(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

}  // namespace

double log_normal_quantile(double median, double sigma, double p) {
  return median * portable_exp(sigma * normal_quantile(p));
}

double clamped_log_normal_mean(double median, double sigma, double lowest, double longest) {
  const double low = std::log(lowest / median) / sigma;
  const double high = std::log(longest / median) / sigma;
  const double mean = median * std::exp(sigma * sigma / 2);
  return lowest * normal_share(low) +
         mean * (normal_share(high - sigma) - normal_share(low - sigma)) +
         longest * normal_share(-high);
}

}  // namespace xt
