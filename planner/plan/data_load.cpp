#include "planner/plan/data_load.h"

#include <algorithm>
#include <cmath>

#include "costmodel/packing/deal.h"
#include "costmodel/packing/imbalance.h"

namespace xt {
namespace {

constexpr std::int64_t most_steps = 200, least_steps = 4;
constexpr double most_samples = 1e6;
constexpr std::int64_t longest_drawn = 1'000'000'000;

double samples_per_pack(const LengthDistribution& lengths, const Strategy& strategy) {
  return std::max(
      1.0, static_cast<double>(strategy.pack_length) / mean_length(lengths, strategy.pack_length));
}

// `strategy` with as many micro-steps as can be drawn: they are alike.
Strategy drawable(const LengthDistribution& lengths, Strategy strategy) {
  const double per_micro_step =
      samples_per_pack(lengths, strategy) *
      static_cast<double>(strategy.data_parallel() * strategy.intra_layer_micro_batches);
  const double most = std::max(1.0, std::floor(most_samples / (least_steps * per_micro_step)));
  if (static_cast<double>(strategy.gradient_accumulation) > most)
    strategy.gradient_accumulation = static_cast<std::int64_t>(most);
  return strategy;
}

double samples_per_step(const LengthDistribution& lengths, const Strategy& strategy) {
  return samples_per_pack(lengths, strategy) *
         static_cast<double>(strategy.data_parallel() * strategy.packs_per_rank());
}

std::size_t n_samples(const LengthDistribution& lengths, const Strategy& strategy) {
  const double per_step = samples_per_step(lengths, strategy);
  const double steps =
      std::clamp(std::floor(most_samples / per_step), double{least_steps}, double{most_steps});
  return static_cast<std::size_t>(std::ceil(steps * per_step));
}

double cut_ratio(const std::vector<std::int64_t>& lengths, std::int64_t pack_length) {
  double all = 0, cut = 0;
  for (const std::int64_t length : lengths) {
    all += static_cast<double>(length);
    cut += static_cast<double>(std::max<std::int64_t>(0, length - pack_length));
  }
  return cut / all;
}

LoadSummary squared_lengths(const std::vector<PackLayout>& packs,
                            const std::vector<std::uint32_t>& order, const Strategy& strategy) {
  return imbalance(packs, order,
                   {strategy.data_parallel(), strategy.packs_per_rank(),
                    strategy.intra_layer_micro_batches})
      .squared_lengths;
}

}  // namespace

double drawn_samples(const LengthDistribution& lengths, const Strategy& strategy) {
  return least_steps * samples_per_step(lengths, drawable(lengths, strategy));
}

DataLoad data_load(const LengthDistribution& lengths, PackLevel level, const Strategy& asked,
                   std::uint64_t seed) {
  const Strategy strategy = drawable(lengths, asked);
  PackingOptions packing;
  packing.pack_length = strategy.pack_length;
  packing.level = level;
  packing.seed = seed;
  const std::vector<std::int64_t> drawn =
      draw_lengths(lengths, n_samples(lengths, strategy), longest_drawn, seed);
  const std::vector<PackLayout> packs = pack_samples(drawn, packing);
  const DealOptions deal{strategy.data_parallel(), strategy.packs_per_rank(), seed};
  const LoadSummary grouped =
      squared_lengths(packs, grouped_order(grouping_keys(packs, level), deal), strategy);
  const LoadSummary plain = squared_lengths(packs, plain_order(packs.size(), deal), strategy);
  const auto together = static_cast<double>(strategy.intra_layer_micro_batches);
  DataLoad load;
  if (level == PackLevel::soft) load.cut_ratio = cut_ratio(drawn, strategy.pack_length);
  load.n_packs = static_cast<std::int64_t>(packs.size());
  double tokens = 0;
  for (const PackLayout& pack : packs) {
    tokens += static_cast<double>(pack.tokens);
    load.mean += static_cast<double>(pack.sum_squared_lengths());
    load.longest_sample = std::max(load.longest_sample, pack.longest_sample());
  }
  load.mean /= static_cast<double>(packs.size());
  load.fill_ratio = tokens / static_cast<double>(load.n_packs * strategy.pack_length);
  load.largest_grouped = grouped.mean_of_largest / together;
  load.largest_plain = plain.mean_of_largest / together;
  return load;
}

}  // namespace xt
