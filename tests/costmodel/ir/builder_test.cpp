#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "costmodel/ir/memory.h"
#include "costmodel/ir/schedule_builder.h"
#include "costmodel/ir/verify.h"

namespace xt {
namespace {

// Writes small schedules by hand: every op is `add` over buffers of `n` fp32 elements.
class Small {
 public:
  Small() : build_("test", 2) { part_ = build_.part("part"); }

  BufferId buffer(std::int64_t n) { return build_.transient({{n, 1, 1}}); }

  OpId op(Lane lane, std::initializer_list<BufferId> inputs,
          std::initializer_list<BufferId> outputs, std::initializer_list<OpId> after = {},
          std::span<const WorkspaceSpec> workspaces = {}) {
    Work work;
    work.kernel = Kernel::add;
    return build_.add({work,
                       lane,
                       Origin{Phase::forward, part_, -1, -1},
                       {inputs.begin(), inputs.size()},
                       {outputs.begin(), outputs.size()},
                       workspaces,
                       {after.begin(), after.size()}});
  }
  void section(std::int32_t repeat = 1) {
    build_.end_section(repeat, Origin{Phase::forward, part_, -1, -1});
  }
  ScheduleBuilder& build() { return build_; }
  Schedule finish() { return std::move(build_).finish(); }

 private:
  ScheduleBuilder build_;
  std::uint8_t part_ = 0;
};

TEST(ScheduleBuilder, AReaderOnAnotherLaneDependsOnTheWriter) {
  Small small;
  const BufferId x = small.buffer(1), y = small.buffer(1);
  const OpId write = small.op(Lane::all_gather, {}, {x});
  const OpId read = small.op(Lane::compute, {x}, {y});
  small.section();
  const Schedule schedule = small.finish();
  EXPECT_THAT(schedule.dependencies_of(schedule.op(read)), testing::ElementsAre(write));
}

TEST(ScheduleBuilder, ABufferUsedOnItsOwnLaneEndsWithItsLastUser) {
  Small small;
  const BufferId x = small.buffer(1), y = small.buffer(1);
  small.op(Lane::compute, {}, {x});
  const OpId last = small.op(Lane::compute, {x}, {y});
  small.op(Lane::compute, {}, {y});
  small.section();
  EXPECT_EQ(small.finish().buffer(x).last_op, last);
}

TEST(ScheduleBuilder, ABufferReadByAnotherLaneEndsWhereThatIsKnownToHaveEnded) {
  // compute writes x; reduce_scatter reads it; the next compute op does not wait, the one after
  // does
  Small small;
  const BufferId x = small.buffer(1), y = small.buffer(1), z = small.buffer(1);
  small.op(Lane::compute, {}, {x});
  const OpId reduce = small.op(Lane::reduce_scatter, {x}, {y});
  small.op(Lane::compute, {}, {z});
  const OpId waits = small.op(Lane::compute, {z}, {z}, {reduce});
  small.section();
  EXPECT_EQ(small.finish().buffer(x).last_op, waits);
}

TEST(ScheduleBuilder, AnOpThatBringsMemoryOfComputeIntoBeingWaitsForComputeBeforeIt) {
  Small small;
  const BufferId x = small.buffer(1), gathered = small.buffer(1);
  const OpId before = small.op(Lane::compute, {}, {x});
  const OpId gather = small.op(Lane::all_gather, {}, {gathered});
  small.section();
  const Schedule schedule = small.finish();
  EXPECT_THAT(schedule.dependencies_of(schedule.op(gather)), testing::ElementsAre(before));
}

TEST(ScheduleBuilder, WhatTheHostWaitedForIsNoDependencyAgain) {
  Small small;
  const BufferId x = small.buffer(1), y = small.buffer(1);
  const OpId write = small.op(Lane::expert, {}, {x});
  small.op(Lane::host, {x}, {});
  const OpId read = small.op(Lane::compute, {x}, {y});
  small.section();
  const Schedule schedule = small.finish();
  EXPECT_TRUE(schedule.dependencies_of(schedule.op(read)).empty());
  EXPECT_EQ(schedule.dependencies_of(schedule.ops[1]).front(), write);
}

TEST(Memory, IsAPrefixSumWithWorkspaceForTheLengthOfItsOp) {
  // op 0 makes x (40 B) with 80 B of workspace; op 1 reads x, makes y (400 B) and ends x
  //   during op 0: 40 + 80 = 120;  during op 1: 40 + 400 = 440;  at the wait: 0
  Small small;
  const BufferId x = small.buffer(10), y = small.buffer(100);
  const std::array<WorkspaceSpec, 1> workspace{{{{20, 1, 1}, DType::fp32}}};
  small.op(Lane::compute, {}, {x}, {}, workspace);
  small.op(Lane::compute, {x}, {y});
  small.section();
  const Schedule schedule = small.finish();
  const std::vector<Bytes> curve = memory_curve(schedule, {}, Space::device);
  EXPECT_THAT(curve, testing::ElementsAre(Bytes(120), Bytes(440), Bytes(0)));
  EXPECT_EQ(memory_peak(schedule, {}, Space::device).op, OpId{1});
}

TEST(Memory, AViewTakesNoneAndASymbolIsWhatItIsBoundTo) {
  Small small;
  const SymbolId rows = small.build().symbol(SymbolKind::rows_received, 0, 7);
  const BufferId x = small.build().transient({{Extent::of(rows), 2, 1}});
  const BufferId view = small.build().view(x, 0, {1, 2, 1}, DType::fp32);
  small.op(Lane::compute, {}, {view});
  small.section();
  const Schedule schedule = small.finish();
  EXPECT_EQ(memory_peak(schedule, assumed_bindings(schedule), Space::device).peak, Bytes(56));
  EXPECT_EQ(memory_peak(schedule, {10}, Space::device).peak, Bytes(80));
}

// Each broken schedule starts from a valid one.
Schedule valid() {
  Small small;
  const BufferId x = small.buffer(4), y = small.buffer(4);
  small.op(Lane::compute, {}, {x});
  small.op(Lane::reduce_scatter, {x}, {y});
  small.section(2);
  return small.finish();
}

TEST(Verify, AcceptsWhatTheBuilderMakes) { EXPECT_THAT(verify(valid()), testing::IsEmpty()); }

TEST(Verify, SeesADependencyThatPointsForward) {
  Schedule schedule = valid();
  schedule.dependencies.front() = OpId{2};
  EXPECT_THAT(verify(schedule), testing::Contains(testing::HasSubstr("is not before it")));
}

TEST(Verify, SeesAReadThatNothingOrdersAfterTheWrite) {
  Schedule schedule = valid();
  schedule.ops[1].n_dependencies = 0;
  EXPECT_THAT(verify(schedule),
              testing::Contains(testing::HasSubstr("before it is known to be written")));
}

TEST(Verify, SeesABufferThatEndsWhileItMayBeInUse) {
  Schedule schedule = valid();
  for (Buffer& buffer : schedule.buffers) buffer.last_op = OpId{0};
  EXPECT_THAT(verify(schedule), testing::Contains(testing::HasSubstr("outside its life")));
}

TEST(Verify, SeesASectionThatRepeatsAndKeepsMemory) {
  Schedule schedule = valid();
  schedule.sections.front().end = OpId{2};
  schedule.sections.push_back({OpId{2}, OpId{3}, 1});
  EXPECT_THAT(verify(schedule), testing::Contains(testing::HasSubstr("but not both")));
}

TEST(Verify, SeesPositionsOutsideTheArrays) {
  Schedule schedule = valid();
  schedule.ops.front().work = WorkId{99};
  EXPECT_THAT(verify(schedule), testing::Contains(testing::HasSubstr("outside the schedule")));
}

}  // namespace
}  // namespace xt
