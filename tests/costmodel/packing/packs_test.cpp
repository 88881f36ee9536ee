#include "costmodel/packing/packs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "costmodel/document/scalar.h"
#include "costmodel/packing/length_distribution.h"

namespace xt {
namespace {

static_assert(NamedEnum<PackLevel>, "files and flags can hold one");

constexpr std::array<std::uint64_t, 4> seeds = {0, 1, 2, 3};

std::vector<std::int64_t> mixed_lengths(std::size_t n, std::int64_t longest, std::uint64_t seed) {
  return draw_lengths({LogNormalLength{500, 1.2}}, n, longest, seed);
}

std::int64_t sum(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

// The shuffle, read off hard packs: no outside view of it is simpler.
std::vector<std::uint32_t> order_of_samples(std::size_t n, std::uint64_t seed) {
  const std::vector<std::int64_t> ones(n, 1);
  std::vector<std::uint32_t> order;
  for (const PackLayout& pack : pack_samples(ones, {1, PackLevel::hard, seed}))
    order.push_back(pack.samples.at(0).sample);
  return order;
}

// Soft packing of one chunk as a list of samples to take from, written without regard to time.
std::vector<std::vector<std::uint32_t>> packed_slowly(const std::vector<std::int64_t>& lengths,
                                                      std::vector<std::uint32_t> remaining,
                                                      std::int64_t pack_length,
                                                      std::size_t buffer) {
  std::vector<std::vector<std::uint32_t>> packs(1);
  std::int64_t gap = pack_length;
  while (!remaining.empty()) {
    const std::uint32_t next = remaining.back();
    remaining.pop_back();
    if (lengths[next] <= gap) {
      packs.back().push_back(next);
      gap -= lengths[next];
      continue;
    }
    std::size_t n_seen = std::min(buffer, remaining.size());
    while (n_seen > 0) {
      const auto shortest =
          std::min_element(remaining.end() - static_cast<std::ptrdiff_t>(n_seen), remaining.end(),
                           [&](auto a, auto b) { return lengths[a] < lengths[b]; });
      if (lengths[*shortest] > gap) break;
      gap -= lengths[*shortest];
      packs.back().push_back(*shortest);
      remaining.erase(shortest);
      --n_seen;
    }
    packs.push_back({next});
    gap = pack_length - lengths[next];
  }
  return packs;
}

TEST(SoftPacks, HoldEverySampleOnceAndWholeAndAreNeverOverFull) {
  for (const std::uint64_t seed : seeds) {
    const auto lengths = mixed_lengths(2500, 8192, seed);
    std::vector<int> uses(lengths.size());
    for (const PackLayout& pack : pack_samples(lengths, {8192, PackLevel::soft, seed, 1000})) {
      std::int64_t tokens = 0;
      for (const PackedSample& one : pack.samples) {
        ++uses.at(one.sample);
        EXPECT_EQ(one.first, 0);
        EXPECT_EQ(one.tokens, lengths.at(one.sample));
        tokens += one.tokens;
      }
      EXPECT_EQ(pack.tokens, tokens);
      EXPECT_LE(pack.tokens, 8192);
      EXPECT_GT(pack.tokens, 0);
    }
    EXPECT_EQ(std::ranges::count(uses, 1), std::ssize(lengths));
  }
}

TEST(SoftPacks, AreThoseOfTheAlgorithmWrittenOutPlainly) {
  for (const std::uint64_t seed : seeds)
    for (const std::int64_t buffer : {0, 1, 7, 100}) {
      const auto lengths = mixed_lengths(700, 4096, seed);
      const auto slow = packed_slowly(lengths, order_of_samples(lengths.size(), seed), 4096,
                                      static_cast<std::size_t>(buffer));
      std::vector<std::vector<std::uint32_t>> fast;
      for (const PackLayout& pack :
           pack_samples(lengths, {4096, PackLevel::soft, seed, 10'000, buffer})) {
        fast.emplace_back();
        for (const PackedSample& one : pack.samples) fast.back().push_back(one.sample);
      }
      EXPECT_EQ(fast, slow) << "seed " << seed << " buffer " << buffer;
    }
}

TEST(SoftPacks, FillBetterWithAnExtraBuffer) {
  for (const std::uint64_t seed : seeds) {
    const auto lengths = mixed_lengths(20'000, 4096, seed);
    const auto with = pack_samples(lengths, {4096, PackLevel::soft, seed});
    const auto without = pack_samples(lengths, {4096, PackLevel::soft, seed, 10'000, 0});
    EXPECT_LT(with.size(), without.size());
    EXPECT_GE(std::ssize(with) * 4096, sum(lengths));
  }
}

TEST(SoftPacks, LeaveOneShortPackAChunkWhereSamplesFitExactly) {
  const std::vector<std::int64_t> lengths(250, 1024);  // four a pack
  std::map<std::int64_t, int> n_by_tokens;
  for (const PackLayout& pack : pack_samples(lengths, {4096, PackLevel::soft, 1, 50}))
    ++n_by_tokens[pack.tokens];
  EXPECT_EQ(n_by_tokens, (std::map<std::int64_t, int>{{4096, 5 * 12}, {2048, 5}}));
}

TEST(SoftPacks, CutTheEndOffASampleLongerThanAPack) {
  const auto packs = pack_samples(std::vector<std::int64_t>{5000}, {4096, PackLevel::soft, 1});
  ASSERT_EQ(packs.size(), 1U);
  EXPECT_EQ(packs[0], (PackLayout{{{0, 0, 4096}}, 4096}));
}

TEST(HardPacks, AreFullAndDropLessThanAPack) {
  for (const std::uint64_t seed : seeds) {
    const auto lengths = mixed_lengths(1000, 16'384, seed);
    const auto packs = pack_samples(lengths, {4096, PackLevel::hard, seed});
    EXPECT_EQ(std::ssize(packs), sum(lengths) / 4096);
    for (const PackLayout& pack : packs) {
      std::int64_t tokens = 0;
      for (const PackedSample& one : pack.samples) tokens += one.tokens;
      EXPECT_EQ(pack.tokens, 4096);
      EXPECT_EQ(tokens, 4096);
    }
  }
}

TEST(HardPacks, HoldThePiecesOfASampleOneAfterTheOther) {
  const auto lengths = mixed_lengths(300, 16'384, 3);
  std::vector<std::int64_t> seen(lengths.size());
  std::set<std::uint32_t> unfinished;
  for (const PackLayout& pack : pack_samples(lengths, {4096, PackLevel::hard, 3}))
    for (const PackedSample& one : pack.samples) {
      EXPECT_EQ(one.first, seen.at(one.sample));
      EXPECT_GT(one.tokens, 0);
      seen[one.sample] += one.tokens;
      EXPECT_LE(seen[one.sample], lengths[one.sample]);
      if (seen[one.sample] < lengths[one.sample])
        unfinished.insert(one.sample);
      else
        unfinished.erase(one.sample);
      EXPECT_LE(unfinished.size(), 1U);
    }
}

TEST(HardPacks, AreNoneWhereTokensFillNone) {
  const std::vector<std::int64_t> lengths = {2000, 2000};
  EXPECT_TRUE(pack_samples(lengths, {4096, PackLevel::hard, 1}).empty());
  EXPECT_EQ(pack_samples(lengths, {4096, PackLevel::soft, 1}).size(), 1U);
}

TEST(PackSamples, FollowsFromTheSeedAlone) {
  const auto lengths = mixed_lengths(500, 4096, 1);
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard}) {
    EXPECT_EQ(pack_samples(lengths, {4096, level, 1}), pack_samples(lengths, {4096, level, 1}));
    EXPECT_NE(pack_samples(lengths, {4096, level, 1}), pack_samples(lengths, {4096, level, 2}));
    EXPECT_TRUE(pack_samples({}, {4096, level, 1}).empty());
  }
}

TEST(PackSamples, ShufflesTheSameWayOnEveryMachine) {
  // Computed in Python.
  EXPECT_EQ(order_of_samples(10, 1), (std::vector<std::uint32_t>{8, 0, 6, 1, 9, 5, 2, 4, 3, 7}));
}

TEST(PackSamples, ShufflesEverySampleToAnyPlace) {
  constexpr int n_seeds = 3000;
  std::array<std::array<int, 3>, 3> counts{};
  for (std::uint64_t seed = 0; seed < n_seeds; ++seed) {
    const auto order = order_of_samples(3, seed);
    for (std::size_t place = 0; place < 3; ++place) ++counts[place][order[place]];
  }
  for (const auto& of_place : counts)
    for (const int count : of_place) EXPECT_NEAR(count, n_seeds / 3, 105);  // four deviations
}

TEST(PackLayout, CountsAttentionInBlocksOf128WithHalvesToEven) {
  const auto cost = [](std::int64_t tokens) {
    return PackLayout{{{0, 0, tokens}}, tokens}.attention_cost();
  };
  EXPECT_EQ(cost(63), 0);
  EXPECT_EQ(cost(64), 0);  // 0.5 to 0
  EXPECT_EQ(cost(65), 1);
  EXPECT_EQ(cost(128), 1);
  EXPECT_EQ(cost(192), 4);  // 1.5 to 2
  EXPECT_EQ(cost(320), 4);  // 2.5 to 2
  EXPECT_EQ(cost(321), 9);
  EXPECT_EQ(cost(65'536), 512 * 512);
}

TEST(PackLayout, SumsOverItsSamples) {
  const PackLayout pack{{{0, 0, 128}, {1, 0, 384}, {2, 10, 200}}, 712};
  EXPECT_EQ(pack.attention_cost(), 1 + 9 + 4);
  EXPECT_EQ(pack.sum_squared_lengths(), 128 * 128 + 384 * 384 + 200 * 200);
  EXPECT_EQ(pack.longest_sample(), 384);
}

}  // namespace
}  // namespace xt
