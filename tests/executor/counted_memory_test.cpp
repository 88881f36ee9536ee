#include "executor/runtime/counted_memory.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

namespace xt {
namespace {

class CountedMemory : public testing::Test {
 protected:
  c10::DataPtr take(std::int64_t bytes, Space space, MemoryCategory category) {
    const auto n = static_cast<std::size_t>(bytes);
    return counters_->counted(c10::GetCPUAllocator()->allocate(n), space, category, Bytes(bytes));
  }
  const SpaceUsage& of(Space space) const { return counters_->usage().of(space); }

  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
};

TEST_F(CountedMemory, KnowsSpacesCategoriesAndWhatThePeakConsistsOf) {
  c10::DataPtr weights = take(100, Space::device, MemoryCategory::parameters);
  {
    const c10::DataPtr more = take(40, Space::device, MemoryCategory::saved_activations);
    const c10::DataPtr swapped = take(7, Space::host, MemoryCategory::saved_activations);
    EXPECT_EQ(of(Space::host).current.value, 7);
    EXPECT_EQ(counters_->usage().n_live, 3);
  }
  EXPECT_EQ(of(Space::device).current.value, 100);
  EXPECT_EQ(of(Space::device).peak.value, 140);
  const auto activations = static_cast<std::size_t>(MemoryCategory::saved_activations);
  EXPECT_EQ(of(Space::device).by_category_at_peak[activations].value, 40);
  EXPECT_EQ(of(Space::device).of(MemoryCategory::saved_activations).value, 0);
  counters_->reset_peak();
  EXPECT_EQ(of(Space::device).peak.value, 100);
  weights.clear();
  EXPECT_EQ(of(Space::device).current.value, 0);
  EXPECT_EQ(counters_->usage().n_live, 0);
}

TEST_F(CountedMemory, CountsEmptyBuffersAndOutlivesItsDevice) {
  c10::DataPtr none = take(0, Space::device, MemoryCategory::other);
  EXPECT_EQ(counters_->usage().n_live, 1);
  const std::weak_ptr<MemoryCounters> kept = counters_;
  counters_.reset();
  EXPECT_FALSE(kept.expired());
  none.clear();
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace xt
