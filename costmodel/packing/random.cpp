#include "costmodel/packing/random.h"

#include <limits>
#include <numeric>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed, Purpose purpose)
    : state_(mixed(mixed(seed + golden_gamma) + static_cast<std::uint64_t>(purpose))) {}

std::uint64_t Random::bits() { return mixed(state_ += golden_gamma); }

double Random::unit() {
  constexpr double spacing = 1.0 / (std::uint64_t{1} << 52);
  return (static_cast<double>(bits() >> 12) + 0.5) * spacing;
}

std::vector<std::uint32_t> shuffled(std::size_t n, Random& random) {
  XT_CHECK(n <= std::numeric_limits<std::uint32_t>::max(), n);
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace xt
