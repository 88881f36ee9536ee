#include "executor/runtime/block_pool.h"

#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace xt {
namespace {

constexpr std::size_t header_bytes = sizeof(MemoryBlock);
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr BlockPool::Rules cuts_all{.least_rest = 2 * header_bytes, .most_octaves = 48};

std::byte* content(MemoryBlock* block) { return reinterpret_cast<std::byte*>(block + 1); }

/// A piece of memory, and a pool that has it.
class Blocks : public testing::Test {
 protected:
  explicit Blocks(BlockPool::Rules rules = cuts_all) : pool_(3, rules) {
    piece_.resize(piece_bytes / header_bytes);
    pool_.add(reinterpret_cast<std::byte*>(piece_.data()), piece_bytes);
  }
  ~Blocks() override { ASAN_UNPOISON_MEMORY_REGION(piece_.data(), piece_bytes); }

  /// A block for `requested`, filled with `value`.
  MemoryBlock* take(std::size_t requested, unsigned char value = 0) {
    MemoryBlock* const block = pool_.take(block_bytes(requested));
    if (block == nullptr) return nullptr;
    EXPECT_GE(block->bytes, requested);
    block->requested = requested;
    ASAN_UNPOISON_MEMORY_REGION(content(block), requested);
    std::memset(content(block), value, requested);
    return block;
  }
  /// All that was cut is one block again.
  void expect_whole() const {
    const auto* const first = reinterpret_cast<const MemoryBlock*>(piece_.data());
    EXPECT_EQ(first->bytes, piece_bytes - header_bytes);
    EXPECT_EQ(first->behind, nullptr);
  }

  struct alignas(header_bytes) Unit {
    std::array<std::byte, header_bytes> bytes;
  };
  std::vector<Unit> piece_;
  BlockPool pool_;
};

struct LargeBlocks : Blocks {
  LargeBlocks() : Blocks({.least_rest = piece_bytes / 8, .most_octaves = 1}) {}
};

TEST(BlockBytes, AreAtMostAnEighthMoreAndASizeItself) {
  for (std::size_t requested = 1; requested < 3'000'000; requested += 1 + requested / 7) {
    const std::size_t bytes = block_bytes(requested);
    EXPECT_GE(bytes, requested);
    EXPECT_LE(bytes, requested + std::max(requested / 8, std::size_t{63}) + 64) << requested;
    EXPECT_EQ(block_bytes(bytes), bytes);
  }
}

TEST_F(Blocks, LieBesideEachOtherAndAreJoinedInAnyOrder) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    std::vector<MemoryBlock*> taken;
    for (std::size_t i = 0; i < order.size(); ++i) taken.push_back(take(1000 * (i + 1)));
    for (const std::size_t i : order) pool_.give_back(taken[i]);
    expect_whole();
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(Blocks, OfAnySizesKeepTheirContentAndEndAsOne) {
  std::mt19937 draw(1);
  std::vector<std::pair<MemoryBlock*, unsigned char>> live;
  const auto give_back = [&](std::size_t i) {
    const auto [block, value] = live[i];
    EXPECT_EQ(std::count(content(block), content(block) + block->requested, std::byte{value}),
              static_cast<std::ptrdiff_t>(block->requested));
    pool_.give_back(block);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int round = 0; round < 20'000; ++round) {
    const auto value = static_cast<unsigned char>(draw() % 256);
    MemoryBlock* const block = draw() % 2 == 0 ? take(1 + draw() % 60'000, value) : nullptr;
    if (block != nullptr)
      live.emplace_back(block, value);
    else if (!live.empty())
      give_back(draw() % live.size());
  }
  EXPECT_GT(live.size(), 5u);
  while (!live.empty()) give_back(live.size() - 1);
  expect_whole();
}

TEST_F(Blocks, AreNullWhereNoneIsLargeEnough) {
  EXPECT_EQ(take(piece_bytes), nullptr);
  EXPECT_NE(take(piece_bytes / 2), nullptr);
  EXPECT_EQ(take(piece_bytes / 2), nullptr);
}

TEST_F(LargeBlocks, GoToWhoAsksForMoreThanHalfOfThem) {
  EXPECT_EQ(take(piece_bytes / 4), nullptr);
  MemoryBlock* const block = take(piece_bytes * 5 / 8);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->bytes, piece_bytes * 5 / 8) << "the rest is another's";
  EXPECT_NE(take(piece_bytes / 4), nullptr);
  pool_.give_back(block);
}

TEST_F(LargeBlocks, KeepARestThatIsTooSmallToBeOne) {
  MemoryBlock* const block = take(piece_bytes * 15 / 16);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->bytes, piece_bytes - header_bytes);
  pool_.give_back(block);
  expect_whole();
}

}  // namespace
}  // namespace xt
