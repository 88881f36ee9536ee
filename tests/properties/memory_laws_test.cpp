#include <gtest/gtest.h>

#include "costmodel/ir/alive.h"
#include "planner/plan/device_memory.h"
#include "planner/plan/plan.h"
#include "strategies.h"

namespace xt::test {
namespace {

constexpr int n_cases = 10;

std::vector<Profile> all_profiles() {
  const Catalogue catalogue{XT_DATA_ROOT};
  std::vector<Profile> all;
  for (const std::string& name : catalogue.machine_names()) all.push_back(catalogue.machine(name));
  return all;
}

Bytes peak_of(const Schedule& schedule) {
  return memory_peak(schedule, assumed_bindings(schedule), Space::device).peak;
}

TEST(MemoryLaws, OneRunInTwentyTakesAtLeastWhatHalfTakeAndThoseWhatIsAllocated) {
  const std::vector<Profile> profiles = all_profiles();
  for_each_case(n_cases, [&](const Case& drawn) {
    const Schedule schedule = drawn.schedule();
    const Bytes peak = peak_of(schedule);
    const Bytes pooled = pooled_peak(schedule, assumed_bindings(schedule), Space::device);
    EXPECT_GE(pooled, peak) << drawn.text();
    for (const Profile& profile : profiles) {
      const DeviceMemory device = device_memory(profile, schedule, peak, pooled);
      EXPECT_EQ(device.allocated, peak);
      EXPECT_GE(device.reserved_p50, device.allocated) << drawn.text();
      EXPECT_GE(device.p50(), device.reserved_p50) << drawn.text();
      EXPECT_GE(device.p95(), device.p50()) << drawn.text();
    }
  });
}

TEST(MemoryLaws, MoreCommunicatorsNeverLowerMemory) {
  const std::vector<Profile> profiles = all_profiles();
  for_each_case(n_cases, [&](const Case& drawn) {
    // Groups become single ranks one after the other, and what ran on them needs no communicator.
    Schedule schedule = drawn.schedule();
    const Bytes peak = peak_of(schedule);
    const Bytes pooled = pooled_peak(schedule, assumed_bindings(schedule), Space::device);
    EXPECT_GE(pooled, peak) << drawn.text();
    const auto of = [&](const Profile& profile) {
      return device_memory(profile, schedule, peak, pooled);
    };
    std::vector<DeviceMemory> before;
    for (const Profile& profile : profiles) before.push_back(of(profile));
    for (GroupShape& group : schedule.groups) {
      group.size = 1;
      for (std::size_t i = 0; i < profiles.size(); ++i) {
        const DeviceMemory after = of(profiles[i]);
        EXPECT_LE(after.n_communicators, before[i].n_communicators) << drawn.text();
        EXPECT_LE(after.p50(), before[i].p50()) << drawn.text();
        EXPECT_LE(after.p95(), before[i].p95()) << drawn.text();
        before[i] = after;
      }
    }
    EXPECT_TRUE(communicators(schedule).empty()) << drawn.text();
  });
}

TEST(MemoryLaws, WhoIsAliveAddsUpToThePeakOfEverySpace) {
  for_each_case(n_cases, [](const Case& drawn) {
    const Schedule schedule = drawn.schedule();
    const Bindings bindings = assumed_bindings(schedule);
    for (const Space space : {Space::device, Space::host}) {
      const MemoryPeak peak = memory_peak(schedule, bindings, space);
      Bytes sum;
      for (const Holders& of : holders_at(schedule, bindings, space, peak.op)) sum += of.bytes;
      EXPECT_EQ(sum, peak.peak) << drawn.text();
    }
  });
}

}  // namespace
}  // namespace xt::test
