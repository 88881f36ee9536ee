#include "costmodel/packing/imbalance.h"

#include <gtest/gtest.h>

#include "costmodel/packing/deal.h"
#include "costmodel/packing/length_distribution.h"

namespace xt {
namespace {

// Packs of one sample each.
std::vector<PackLayout> packs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<PackLayout> packs;
  for (std::uint32_t i = 0; i < lengths.size(); ++i)
    packs.push_back({{{i, 0, lengths[i]}}, lengths[i]});
  return packs;
}

// Both orders of the packs of some samples.
struct Both {
  Imbalance grouped;
  Imbalance plain;
};

Both both(const LengthDistribution& distribution, PackLevel level, std::uint64_t seed) {
  constexpr std::int64_t pack_length = 16'384;
  const DealOptions options{16, 2, seed};
  const auto lengths = draw_lengths(distribution, 16'000, pack_length, seed);
  const auto packs = pack_samples(lengths, {pack_length, level, seed});
  const auto grouped = grouped_order(grouping_keys(packs, level), options);
  const auto plain = plain_order(packs.size(), options);
  return {imbalance(packs, grouped, {options.ranks, options.packs_per_rank}),
          imbalance(packs, plain, {options.ranks, options.packs_per_rank})};
}

TEST(MicroStepLoads, TakeMeanAndLargestOfEachGroup) {
  const auto packs = packs_of({10, 20, 30, 40});
  const std::vector<std::uint32_t> order = {3, 0, 1, 2};
  const auto loads = micro_step_loads(packs, order, 2);
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(loads[0], (MicroStepLoad{{850, 1600}, {25, 40}}));
  EXPECT_EQ(loads[1], (MicroStepLoad{{650, 900}, {25, 30}}));
}

TEST(Imbalance, AveragesOverMicroSteps) {
  const auto packs = packs_of({10, 20, 30, 40});
  const std::vector<std::uint32_t> order = {3, 0, 1, 2};
  const Imbalance result = imbalance(packs, order, {2, 2});
  EXPECT_EQ(result.n_micro_steps, 2U);
  EXPECT_EQ(result.squared_lengths.mean, 750);
  EXPECT_EQ(result.squared_lengths.mean_of_largest, 1250);
  EXPECT_EQ(result.squared_lengths.imbalance(), 1250.0 / 750);
  EXPECT_EQ(result.squared_lengths.micro_steps, (Quantiles{900, 900, 1600, 1600}));
  EXPECT_EQ(result.squared_lengths.steps, (Quantiles{2500, 2500, 2500, 2500}));
  EXPECT_EQ(result.tokens.imbalance(), 35.0 / 25);
}

TEST(Imbalance, TakesTheSmallestValueThatCoversAShareAsItsQuantile) {
  std::vector<std::int64_t> lengths;
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < 40; ++i) {
    lengths.push_back(i + 1);
    order.push_back(39 - i);
  }
  const Imbalance result = imbalance(packs_of(lengths), order, {1, 1});
  EXPECT_EQ(result.tokens.micro_steps, (Quantiles{2, 20, 38, 40}));
  EXPECT_EQ(result.tokens.micro_steps, result.tokens.steps);
  EXPECT_EQ(result.tokens.imbalance(), 1);
}

// Two ranks with two packs each in lock-step: 9 + 1 against 4 + 16, and not 9 against 4 and then 1
// against 16.
TEST(Imbalance, TakesPacksInLockStepAsOne) {
  const std::vector<std::int64_t> lengths{3, 2, 1, 4};
  const std::vector<std::uint32_t> order{0, 1, 2, 3};
  const Imbalance result = imbalance(packs_of(lengths), order, {2, 2, 2});
  EXPECT_EQ(result.n_micro_steps, 1u);
  EXPECT_EQ(result.squared_lengths.mean_of_largest, 20);
  EXPECT_EQ(result.squared_lengths.mean, 15);
  EXPECT_EQ(result.tokens.mean_of_largest, 6);
}

TEST(Imbalance, OfNothingIsNone) {
  const Imbalance result = imbalance({}, {}, {4, 2});
  EXPECT_EQ(result, Imbalance{});
  EXPECT_EQ(result.squared_lengths.imbalance(), 1);
}

TEST(Imbalance, IsNotMadeWorseByGroupingPacksOfMixedLengths) {
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard})
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
      const Both found = both({LogNormalLength{800, 1.3}}, level, seed);
      EXPECT_GE(found.grouped.squared_lengths.imbalance(), 1);
      EXPECT_LT(found.grouped.squared_lengths.imbalance(), found.plain.squared_lengths.imbalance())
          << "seed " << seed;
    }
}

TEST(Imbalance, IsOneAtOneLength) {
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard})
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const Both found = both({FixedLength{4096}}, level, seed);
      EXPECT_EQ(found.grouped.squared_lengths.imbalance(), 1);
      EXPECT_EQ(found.grouped.tokens.imbalance(), 1);
      EXPECT_EQ(found.plain.squared_lengths.imbalance(), 1);
      EXPECT_EQ(found.plain.tokens.imbalance(), 1);
    }
}

TEST(Imbalance, GrowsWithTheSpreadOfLengthsAndTheNumberOfRanks) {
  const auto plain = [](double sigma, std::int64_t ranks) {
    const auto lengths = draw_lengths({LogNormalLength{800, sigma}}, 16'000, 16'384, 1);
    const auto packs = pack_samples(lengths, {16'384, PackLevel::soft, 1});
    const auto order = plain_order(packs.size(), {ranks, 1, 1});
    return imbalance(packs, order, {ranks, 1}).squared_lengths.imbalance();
  };
  EXPECT_LT(plain(0.3, 16), plain(0.8, 16));
  EXPECT_LT(plain(0.8, 16), plain(1.3, 16));
  EXPECT_LT(plain(1.3, 2), plain(1.3, 16));
  EXPECT_LT(plain(1.3, 16), plain(1.3, 64));
  EXPECT_EQ(plain(1.3, 1), 1);
}

}  // namespace
}  // namespace xt
