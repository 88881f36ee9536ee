#include "executor/runtime/allocator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "executor/runtime/out_of_memory.h"

namespace xt {
namespace {

at::Tensor floats(std::int64_t n) { return at::empty({n}, at::kFloat); }

TEST(Allocator, CountsRequestedBytesExactly) {
  const MemoryUsage before = memory_usage();
  const at::Tensor tensor = floats(1001);
  EXPECT_EQ(memory_usage().of(Space::device).current - before.of(Space::device).current,
            Bytes(4004));
}

TEST(Allocator, AlignsEveryBlockTo64Bytes) {
  for (std::int64_t n = 1; n < 5000; n += 37)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats(n).data_ptr()) % 64, 0u) << n;
}

TEST(Allocator, EmptyTensorsTakeNothing) {
  const MemoryUsage before = memory_usage();
  const at::Tensor tensor = floats(0);
  EXPECT_EQ(memory_usage().n_live, before.n_live);
}

TEST(Allocator, RefusesWhatWouldPassTheLimitOfASpaceAndSaysWhatIsHeld) {
  const AllocationScope scope(Space::host, MemoryCategory::saved_activations);
  const at::Tensor held = floats(256);
  const MemoryUsage before = memory_usage();
  limit_space(Space::host, before.of(Space::host).current + Bytes(4096));
  EXPECT_THAT([] { floats(1025); }, testing::ThrowsMessage<OutOfMemory>(
                                        testing::HasSubstr("saved_activations on the host")));
  EXPECT_EQ(memory_usage().of(Space::host).current, before.of(Space::host).current);
  EXPECT_EQ(memory_usage().n_live, before.n_live);
  EXPECT_EQ(floats(1024).numel(), 1024) << "up to the limit there is room";
  limit_space(Space::host, Bytes(std::int64_t{1} << 60));
}

TEST(Allocator, ScopeDecidesSpaceAndCategoryAndEndsAgain) {
  const MemoryUsage before = memory_usage();
  {
    const AllocationScope scope(Space::host, MemoryCategory::saved_activations);
    const at::Tensor swapped = floats(256);
    const MemoryUsage inside = memory_usage();
    EXPECT_EQ(inside.of(Space::host).current - before.of(Space::host).current, Bytes(1024));
    EXPECT_EQ(inside.of(Space::host).of(MemoryCategory::saved_activations) -
                  before.of(Space::host).of(MemoryCategory::saved_activations),
              Bytes(1024));
    EXPECT_EQ(inside.of(Space::device).current, before.of(Space::device).current);
  }
  const at::Tensor outside = floats(256);
  EXPECT_EQ(memory_usage().of(Space::host).current, before.of(Space::host).current);
  EXPECT_EQ(memory_usage().of(Space::device).of(MemoryCategory::other) -
                before.of(Space::device).of(MemoryCategory::other),
            Bytes(1024));
}

TEST(Allocator, AnotherThreadFreesIntoTheSpaceOfTheAllocation) {
  const MemoryUsage before = memory_usage();
  at::Tensor tensor;
  {
    const AllocationScope scope(Space::host, MemoryCategory::gradients);
    tensor = floats(4096);
  }
  std::thread([&] { tensor.reset(); }).join();
  EXPECT_EQ(memory_usage().of(Space::host).current, before.of(Space::host).current);
  EXPECT_EQ(memory_usage().n_live, before.n_live);
}

TEST(Allocator, PeakKeepsTheBreakdownOfItsMoment) {
  reset_peak();
  const Bytes before = memory_usage().of(Space::device).current;
  at::Tensor parameters;
  {
    const AllocationScope scope(Space::device, MemoryCategory::parameters);
    parameters = floats(1 << 20);
  }
  {
    const AllocationScope scope(Space::device, MemoryCategory::workspace);
    const at::Tensor temporary = floats(1 << 18);
  }
  parameters.reset();
  const SpaceUsage usage = memory_usage().of(Space::device);
  const auto at_peak = [&](MemoryCategory category) {
    return usage.by_category_at_peak[static_cast<std::size_t>(category)];
  };
  EXPECT_EQ(usage.peak - before, Bytes((5 << 20)));
  EXPECT_EQ(at_peak(MemoryCategory::parameters), Bytes(4 << 20));
  EXPECT_EQ(at_peak(MemoryCategory::workspace), Bytes(1 << 20));
  EXPECT_EQ(usage.current, before);
  reset_peak();
  EXPECT_EQ(memory_usage().of(Space::device).peak, before);
}

TEST(Allocator, RepeatedStepsTakeNothingMoreFromTheSystem) {
  const auto step = [] {
    std::vector<at::Tensor> live;
    for (std::int64_t n : {17, 1000, 70000, 3 << 20}) live.push_back(floats(n));
    for (std::int64_t n : {31, 500, 1 << 20}) live.push_back(floats(n) + 1);
  };
  step();
  const MemoryUsage before = memory_usage();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(memory_usage().n_system_calls, before.n_system_calls);
  EXPECT_EQ(memory_usage().reserved, before.reserved);
}

TEST(Allocator, StepsOfOtherSizesLiveOnWhatTheLargestTook) {
  const auto step = [](std::int64_t percent) {
    std::vector<at::Tensor> live;
    for (std::int64_t n : {900, 7000, 40'000, 150'000}) live.push_back(floats(n * percent / 100));
    const at::Tensor large = floats((2 << 20) * percent / 100);
  };
  step(100);
  const MemoryUsage before = memory_usage();
  for (std::int64_t percent = 51; percent < 100; ++percent) step(percent);
  EXPECT_EQ(memory_usage().reserved, before.reserved);
}

TEST(Allocator, ABlockIsAtMostAnEighthLargerThanAskedFor) {
  const MemoryUsage before = memory_usage();
  const std::int64_t requested = (100 << 20) + 4;
  const at::Tensor tensor = at::empty({requested}, at::kByte);
  const std::int64_t taken = (memory_usage().reserved - before.reserved).value;
  EXPECT_GE(taken, requested);
  EXPECT_LE(taken, requested + requested / 8 + 64);
}

TEST(Allocator, ThreadsAllocatingAtOnceAreAllCounted) {
  const MemoryUsage before = memory_usage();
  std::vector<std::vector<at::Tensor>> kept(4);
  std::vector<std::thread> threads;
  for (auto& mine : kept)
    threads.emplace_back([&mine] {
      for (int i = 1; i <= 500; ++i) {
        mine.push_back(floats(i));
        const at::Tensor gone = floats(i * 3);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_usage().of(Space::device).current - before.of(Space::device).current,
            Bytes(4 * 4 * 500 * 501 / 2));
  EXPECT_EQ(memory_usage().n_allocations - before.n_allocations, 4 * 1000);
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  xt::install_allocator();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
