#include "costmodel/packing/deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "costmodel/packing/length_distribution.h"

namespace xt {
namespace {

std::vector<std::int64_t> some_keys(std::size_t n, std::uint64_t seed) {
  return draw_lengths({LogNormalLength{1000, 1.5}}, n, 1'000'000, seed);
}

void expect_permutation_then_repetition(const std::vector<std::uint32_t>& order, std::size_t n,
                                        std::size_t batch) {
  ASSERT_EQ(order.size(), (n + batch - 1) / batch * batch);
  std::vector<std::uint32_t> first(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n));
  std::ranges::sort(first);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(first[i], i);
  for (std::size_t i = n; i < order.size(); ++i) EXPECT_EQ(order[i], order[i - n]);
}

TEST(Orders, DealEveryPackOnceThenBeginAnewUntilAStepIsFull) {
  for (const std::size_t n : {1U, 3U, 16U, 17U, 100U, 1003U})
    for (const std::uint64_t seed : {1U, 2U}) {
      const DealOptions options{8, 2, seed};
      expect_permutation_then_repetition(grouped_order(some_keys(n, seed), options), n, 16);
      expect_permutation_then_repetition(plain_order(n, options), n, 16);
    }
}

TEST(Orders, AreEmptyWithoutPacks) {
  EXPECT_TRUE(grouped_order({}, {8, 2, 1}).empty());
  EXPECT_TRUE(plain_order(0, {8, 2, 1}).empty());
}

TEST(Orders, FollowFromTheSeedAlone) {
  const auto keys = some_keys(500, 1);
  EXPECT_EQ(grouped_order(keys, {8, 2, 1}), grouped_order(keys, {8, 2, 1}));
  EXPECT_NE(grouped_order(keys, {8, 2, 1}), grouped_order(keys, {8, 2, 2}));
  EXPECT_EQ(plain_order(500, {8, 2, 1}), plain_order(500, {8, 2, 1}));
  EXPECT_NE(plain_order(500, {8, 2, 1}), plain_order(500, {8, 2, 2}));
}

TEST(GroupingWindow, IsAQuarterOfThePacksInWholeStepsUpTo50) {
  const DealOptions options{8, 2};
  EXPECT_EQ(grouping_window(0, options), 16);
  EXPECT_EQ(grouping_window(127, options), 16);
  EXPECT_EQ(grouping_window(128, options), 2 * 16);
  EXPECT_EQ(grouping_window(3199, options), 49 * 16);
  EXPECT_EQ(grouping_window(3200, options), 50 * 16);
  EXPECT_EQ(grouping_window(1'000'000, options), 50 * 16);
}

TEST(GroupedOrder, DealsNeighboursOfTheSortedWindowAtOnce) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    constexpr std::size_t ranks = 8;
    const DealOptions options{ranks, 2, seed};
    const auto keys = some_keys(1280, seed);
    const auto order = grouped_order(keys, options);
    const auto window = static_cast<std::size_t>(grouping_window(keys.size(), options));
    ASSERT_EQ(keys.size() % window, 0U);
    for (std::size_t begin = 0; begin < order.size(); begin += window) {
      std::vector<std::int64_t> dealt;
      std::multiset<std::vector<std::int64_t>> groups;
      for (std::size_t i = begin; i < begin + window; ++i) dealt.push_back(keys[order[i]]);
      for (auto at = dealt.begin(); at != dealt.end(); at += ranks) groups.emplace(at, at + ranks);
      std::ranges::sort(dealt, std::greater{});
      for (auto at = dealt.begin(); at != dealt.end(); at += ranks)
        EXPECT_EQ(groups.count({at, at + ranks}), 1U) << "seed " << seed << " window " << begin;
    }
  }
}

TEST(GroupedOrder, ShufflesTheGroupsOfAWindow) {
  const auto keys = some_keys(1280, 1);
  const auto order = grouped_order(keys, {8, 2, 1});
  int rises = 0;
  for (std::size_t i = 8; i < order.size(); i += 8) rises += keys[order[i]] > keys[order[i - 8]];
  EXPECT_NEAR(rises, 80, 25);  // of 159 steps from group to group about half
}

TEST(GroupedOrder, SortsOnlyWithinAWindow) {
  // Were all packs sorted together, the largest 8 would be dealt at once.
  const auto keys = some_keys(1280, 1);
  auto sorted = keys;
  std::ranges::sort(sorted, std::greater{});
  const auto order = grouped_order(keys, {8, 2, 1});
  const auto n_groups_of_largest = [&] {
    std::set<std::size_t> groups;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (keys[order[i]] >= sorted[7]) groups.insert(i / 8);
    return groups.size();
  }();
  EXPECT_GT(n_groups_of_largest, 1U);
}

TEST(GroupingKeys, AreAttentionCostsOfSoftAndLongestSamplesOfHardPacks) {
  const std::vector<PackLayout> packs = {{{{0, 0, 256}, {1, 0, 128}}, 384}, {{{2, 0, 384}}, 384}};
  EXPECT_EQ(grouping_keys(packs, PackLevel::soft), (std::vector<std::int64_t>{5, 9}));
  EXPECT_EQ(grouping_keys(packs, PackLevel::hard), (std::vector<std::int64_t>{256, 384}));
}

}  // namespace
}  // namespace xt
