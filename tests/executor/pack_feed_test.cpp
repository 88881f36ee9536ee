#include "executor/data/pack_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "executor/data/sources.h"

namespace xt {
namespace {

using testing::Each;
using testing::ElementsAreArray;

/// Packs of 64 tokens from documents of 1 to 60, token by token the number of the document.
std::shared_ptr<const Packs> packs_of_many_lengths(PackLevel level, int n_documents = 200) {
  auto documents = std::make_shared<TokensInMemory<std::int32_t>>();
  for (int i = 0; i < n_documents; ++i) {
    documents->begin_document();
    for (int j = 0; j < 1 + i * 37 % 60; ++j) documents->append(i);
  }
  return std::make_shared<const Packs>(documents, PackingChoices{64, 64, level, 3}, 10000);
}

std::vector<Pack> take(PackFeed& feed, std::int64_t first, std::int64_t n) {
  std::vector<Pack> packs;
  for (std::int64_t i = first; i < first + n; ++i) packs.push_back(feed.pack(i));
  return packs;
}

std::int64_t epoch_length(std::int64_t n_packs, std::int64_t batch) {
  return (n_packs + batch - 1) / batch * batch;
}

TEST(PackFeed, DealsInTheOrderThatThePlannerSimulates) {
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard})
    for (const bool groups : {true, false}) {
      const auto packs = packs_of_many_lengths(level);
      const DealOptions deal{4, 2, 9};
      PackFeed feed(packs, {deal, groups, level});
      const auto order = groups ? grouped_order(grouping_keys(packs->layouts(), level), deal)
                                : plain_order(static_cast<std::size_t>(packs->size()), deal);
      for (std::size_t i = 0; i < order.size(); ++i)
        ASSERT_EQ(feed.pack(static_cast<std::int64_t>(i)), packs->pack(order[i]));
    }
}

TEST(PackFeed, GivesEachEpochAnOrderOfItsOwnOverAllPacks) {
  const auto packs = packs_of_many_lengths(PackLevel::soft);
  PackFeed feed(packs, {{2, 2, 1}, true, PackLevel::soft});
  const std::int64_t length = epoch_length(packs->size(), 4);
  const std::vector<Pack> first = take(feed, 0, length);
  EXPECT_EQ(feed.epoch().number, 0);
  const std::vector<Pack> second = take(feed, length, length);
  EXPECT_EQ(feed.epoch().number, 1);
  EXPECT_EQ(feed.epoch().first_pack, length);
  EXPECT_NE(first, second);
  for (std::int64_t i = 0; i < packs->size(); ++i)
    for (const auto& epoch : {first, second}) EXPECT_THAT(epoch, testing::Contains(packs->pack(i)));
}

TEST(PackFeed, DoesNotGivePacksOfOneLongDocumentOneAfterTheOther) {
  auto documents = std::make_shared<TokensInMemory<std::int32_t>>();
  for (int i = 0; i < 400; ++i) documents->append(i);
  const auto packs =
      std::make_shared<const Packs>(documents, PackingChoices{8, 8, PackLevel::hard, 1}, 1000);
  PackFeed feed(packs, {{1, 1, 1}, true, PackLevel::hard});
  int n_neighbours = 0;
  const std::vector<Pack> all = take(feed, 0, packs->size());
  for (std::size_t i = 1; i < all.size(); ++i)
    n_neighbours += all[i].tokens[0] == all[i - 1].tokens[0] + 8 ? 1 : 0;
  EXPECT_LT(n_neighbours, packs->size() / 4);
}

// Ranks that run at once wait for the one with most attention.
TEST(PackFeed, GroupsPacksOfLikeAttention) {
  const auto packs = packs_of_many_lengths(PackLevel::soft, 2000);
  const auto waited = [&](bool groups) {
    PackFeed feed(packs, {{4, 1, 1}, groups, PackLevel::hard});  // keys that short samples have too
    std::int64_t largest = 0;
    for (std::int64_t row = 0; row < packs->size() / 4; ++row) {
      std::int64_t of_row = 0;
      for (const Pack& pack : take(feed, 4 * row, 4))
        of_row = std::max(of_row, sum_squared_lengths(pack));
      largest += of_row;
    }
    return static_cast<double>(largest);
  };
  EXPECT_LT(waited(true), 0.9 * waited(false));
}

TEST(PackFeed, GoesOnInTheMiddleOfAnEpoch) {
  const auto packs = packs_of_many_lengths(PackLevel::hard);
  const FeedChoices choices{{2, 2, 1}, true, PackLevel::hard};
  PackFeed whole(packs, choices);
  const std::int64_t length = epoch_length(packs->size(), 4);
  (void)take(whole, 0, length + 8);
  PackFeed resumed(packs, choices);
  resumed.enter(whole.epoch());
  EXPECT_EQ(take(resumed, length + 8, length), take(whole, length + 8, length));
}

TEST(PackFeed, EndsAnEpochAsItWasBegunWhenRanksChange) {
  const auto packs = packs_of_many_lengths(PackLevel::hard);
  PackFeed before(packs, {{2, 2, 1}, true, PackLevel::hard});
  const std::int64_t length = epoch_length(packs->size(), 4);
  (void)take(before, 0, 4);
  PackFeed after(packs, {{3, 1, 1}, true, PackLevel::hard});
  after.enter(before.epoch());
  EXPECT_EQ(take(after, 4, length - 4), take(before, 4, length - 4));
  (void)after.pack(length);
  EXPECT_EQ(after.epoch(), (DataEpoch{1, length, 3, 1}));
}

}  // namespace
}  // namespace xt
