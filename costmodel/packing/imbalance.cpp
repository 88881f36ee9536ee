#include "costmodel/packing/imbalance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

// The load of a group by `of`, a count per pack.
template <typename Count>
RankLoad load(std::span<const std::uint32_t> group, const Count& of) {
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (const std::uint32_t pack : group) {
    sum += of(pack);
    largest = std::max(largest, of(pack));
  }
  return {static_cast<double>(sum) / static_cast<double>(group.size()), largest};
}

Quantiles quantiles(std::vector<std::int64_t> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](std::size_t percent) {
    return values[(percent * values.size() + 99) / 100 - 1];
  };
  return {at(5), at(50), at(95), at(100)};
}

LoadSummary summary(std::span<const MicroStepLoad> loads, RankLoad MicroStepLoad::*kind,
                    std::size_t packs_per_rank) {
  LoadSummary result;
  std::vector<std::int64_t> of_micro_steps;
  std::vector<std::int64_t> of_steps(loads.size() / packs_per_rank);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const RankLoad& one = loads[i].*kind;
    result.mean += one.mean;
    result.mean_of_largest += static_cast<double>(one.largest);
    of_micro_steps.push_back(one.largest);
    of_steps[i / packs_per_rank] += one.largest;
  }
  if (!loads.empty()) {
    result.mean /= static_cast<double>(loads.size());
    result.mean_of_largest /= static_cast<double>(loads.size());
  }
  result.micro_steps = quantiles(std::move(of_micro_steps));
  result.steps = quantiles(std::move(of_steps));
  return result;
}

// The packs that a rank takes through the layers at once, as one; in the order of `order`, so that
// each row of `ranks` is a micro-step.
std::vector<PackLayout> joined(std::span<const PackLayout> packs,
                               std::span<const std::uint32_t> order, const Takers& takers) {
  const auto ranks = static_cast<std::size_t>(takers.ranks);
  const auto together = static_cast<std::size_t>(takers.together);
  std::vector<PackLayout> result(order.size() / together);
  for (std::size_t i = 0; i < order.size(); ++i) {
    PackLayout& into = result[i / (ranks * together) * ranks + i % ranks];
    const PackLayout& pack = packs[order[i]];
    into.samples.insert(into.samples.end(), pack.samples.begin(), pack.samples.end());
    into.tokens += pack.tokens;
  }
  return result;
}

}  // namespace

std::vector<MicroStepLoad> micro_step_loads(std::span<const PackLayout> packs,
                                            std::span<const std::uint32_t> order,
                                            std::int64_t ranks) {
  XT_CHECK(ranks >= 1 && std::ssize(order) % ranks == 0, ranks, order.size());
  std::vector<std::int64_t> squares;
  squares.reserve(packs.size());
  for (const PackLayout& pack : packs) squares.push_back(pack.sum_squared_lengths());
  std::vector<MicroStepLoad> loads;
  loads.reserve(order.size() / static_cast<std::size_t>(ranks));
  for (; !order.empty(); order = order.subspan(static_cast<std::size_t>(ranks))) {
    const auto group = order.first(static_cast<std::size_t>(ranks));
    loads.push_back({load(group, [&](std::uint32_t pack) { return squares[pack]; }),
                     load(group, [&](std::uint32_t pack) { return packs[pack].tokens; })});
  }
  return loads;
}

Imbalance imbalance(std::span<const PackLayout> packs, std::span<const std::uint32_t> order,
                    const Takers& takers) {
  const auto& [ranks, packs_per_rank, together] = takers;
  XT_CHECK(packs_per_rank >= 1 && std::ssize(order) % (ranks * packs_per_rank) == 0, order.size(),
           ranks, packs_per_rank);
  XT_CHECK(together >= 1 && packs_per_rank % together == 0, packs_per_rank, together);
  if (together > 1) {
    const std::vector<PackLayout> all = joined(packs, order, takers);
    std::vector<std::uint32_t> as_they_are(all.size());
    std::iota(as_they_are.begin(), as_they_are.end(), 0u);
    return imbalance(all, as_they_are, {ranks, packs_per_rank / together, 1});
  }
  const std::vector<MicroStepLoad> loads = micro_step_loads(packs, order, ranks);
  const auto per_rank = static_cast<std::size_t>(packs_per_rank);
  return {loads.size(), summary(loads, &MicroStepLoad::squared_lengths, per_rank),
          summary(loads, &MicroStepLoad::tokens, per_rank)};
}

}  // namespace xt
