#include "costmodel/units/normal.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace xt {
namespace {

// The logarithm of a positive `x` by 2·artanh((m − 1) / (m + 1)) of its mantissa m, which lies
// between √½ and √2: eleven terms leave 1e-17.
double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 1 / std::numbers::sqrt2) {
    mantissa *= 2;
    --exponent;
  }
  const double ratio = (mantissa - 1) / (mantissa + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int n = 10; n >= 0; --n) sum = sum * square + 1.0 / (2 * n + 1);
  return 2 * ratio * sum + exponent * std::numbers::ln2;
}

}  // namespace

// e^x by the Taylor series of what remains after halvings, at most ln 2 / 2: fourteen terms leave
// 1e-17.
double portable_exp(double x) {
  const double bounded = std::clamp(x, -700.0, 700.0);  // beyond lies no length
  const double halvings = std::floor(bounded / std::numbers::ln2 + 0.5);
  const double rest = bounded - halvings * std::numbers::ln2;
  double sum = 1;
  for (int n = 13; n >= 1; --n) sum = 1 + rest / n * sum;
  return std::ldexp(sum, static_cast<int>(halvings));
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1);
  }
  double r = std::sqrt(-portable_log(std::min(p, 1 - p)));
  double quantile = 0;
  if (r <= 5) {
    r -= 1.6;
    quantile = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
               ((0.12021132975 * r + 0.73700164250) * r + 1);
  } else {
    r -= 5;
    quantile = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
               ((0.012258202635 * r + 0.24197894225) * r + 1);
  }
  return q < 0 ? -quantile : quantile;
}

double largest_normal_of(std::int64_t n) {
  const auto count = static_cast<double>(n);
  return normal_quantile((count - 0.375) / (count + 0.25));
}

}  // namespace xt
