#include "costmodel/packing/deal.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/packing/random.h"

namespace xt {
namespace {

constexpr std::int64_t most_steps = 50;  // in a window
constexpr std::int64_t least_windows = 4;

void check(const DealOptions& options) {
  XT_CHECK(options.ranks >= 1 && options.packs_per_rank >= 1, options.ranks,
           options.packs_per_rank);
}

std::vector<std::uint32_t> rounded_up(std::vector<std::uint32_t> order,
                                      const DealOptions& options) {
  const std::size_t n = order.size();
  if (n == 0) return order;
  const auto batch = static_cast<std::size_t>(options.global_batch());
  order.resize((n + batch - 1) / batch * batch);
  for (std::size_t i = n; i < order.size(); ++i) order[i] = order[i - n];
  return order;
}

// Appends the groups of a sorted window to `order`, shuffled.
void append_groups(std::span<const std::uint32_t> window, std::size_t ranks, Random& random,
                   std::vector<std::uint32_t>& order) {
  const std::size_t n_groups = (window.size() + ranks - 1) / ranks;
  for (const std::uint32_t group : shuffled(n_groups, random)) {
    const std::span<const std::uint32_t> rest = window.subspan(group * ranks);
    const std::span<const std::uint32_t> members = rest.first(std::min(ranks, rest.size()));
    order.insert(order.end(), members.begin(), members.end());
  }
}

}  // namespace

std::vector<std::int64_t> grouping_keys(std::span<const PackLayout> packs, PackLevel level) {
  std::vector<std::int64_t> keys;
  keys.reserve(packs.size());
  for (const PackLayout& pack : packs)
    keys.push_back(level == PackLevel::soft ? pack.attention_cost() : pack.longest_sample());
  return keys;
}

std::int64_t grouping_window(std::size_t n_packs, const DealOptions& options) {
  check(options);
  const std::int64_t batch = options.global_batch();
  const std::int64_t steps = static_cast<std::int64_t>(n_packs) / (batch * least_windows);
  return std::clamp(steps, std::int64_t{1}, most_steps) * batch;
}

std::vector<std::uint32_t> grouped_order(std::span<const std::int64_t> keys,
                                         const DealOptions& options) {
  const auto size = static_cast<std::size_t>(grouping_window(keys.size(), options));
  Random random(options.seed, Purpose::packs);
  std::vector<std::uint32_t> packs = shuffled(keys.size(), random);
  std::vector<std::uint32_t> order;
  order.reserve(packs.size());
  for (std::size_t begin = 0; begin < packs.size(); begin += size) {
    const std::span<std::uint32_t> rest = std::span(packs).subspan(begin);
    const std::span<std::uint32_t> window = rest.first(std::min(size, rest.size()));
    std::ranges::stable_sort(window, std::greater{},
                             [&](std::uint32_t pack) { return keys[pack]; });
    append_groups(window, static_cast<std::size_t>(options.ranks), random, order);
  }
  return rounded_up(std::move(order), options);
}

std::vector<std::uint32_t> plain_order(std::size_t n_packs, const DealOptions& options) {
  check(options);
  Random random(options.seed, Purpose::packs);
  return rounded_up(shuffled(n_packs, random), options);
}

}  // namespace xt
