#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/sim/pipeline.h"
#include "pipeline_times.h"
#include "planner/estimate/estimate.h"
#include "strategies.h"

namespace xt::test {
namespace {

constexpr int n_cases = 20;

/// `visit(case, the same without offload)` for pipelines that offload.
template <typename Visit>
void for_each_offload(Visit visit) {
  int n = 0;
  for_each_pipeline(n_cases, [&](const Case& drawn) {
    if (drawn.strategy.offload_share == 0) return;
    Case without = drawn;
    without.strategy.offload_share = 0;
    visit(drawn, without);
    ++n;
  });
  EXPECT_GT(n, n_cases);
}

Bytes peak_of(const PipelineSchedule& pipeline, std::size_t place, Space space) {
  const Stage& stage = pipeline.stage(place);
  return stage_peak(stage, pipeline.orders[place], pipeline.micro_batches,
                    assumed_bindings(stage.schedule), space)
      .memory.peak;
}

// Bytes that ops of `kernel` copy in a section.
Bytes copied(const Schedule& schedule, const Section& section, Kernel kernel) {
  Bytes sum;
  for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
    const Work& work = schedule.work(schedule.ops[i]);
    if (work.kernel == kernel) sum += Bytes(work.extent(0, {}) * width(work.dtype));
  }
  return sum;
}

std::vector<Bytes> copied_by_section(const Stage& stage, Kernel kernel) {
  std::vector<Bytes> sums;
  for (const Section& section : stage.schedule.sections)
    sums.push_back(copied(stage.schedule, section, kernel));
  return sums;
}

TEST(OffloadLaws, AShareOfTheBytesLeavesAndAsManyComeBack) {
  for_each_offload([](const Case& drawn, Case) {
    Case all = drawn;
    all.strategy.offload_share = 1;
    const PipelineSchedule some = drawn.pipeline(), whole = all.pipeline();
    for (std::size_t i = 0; i < some.distinct.size(); ++i) {
      const auto out = copied_by_section(some.distinct[i], Kernel::copy_to_host);
      const auto in = copied_by_section(some.distinct[i], Kernel::copy_to_device);
      const auto most = copied_by_section(whole.distinct[i], Kernel::copy_to_host);
      Bytes left, back;
      for (std::size_t s = 0; s < out.size(); ++s) {
        left += out[s], back += in[s];
        EXPECT_NEAR(static_cast<double>(out[s].value),
                    drawn.strategy.offload_share * static_cast<double>(most[s].value), 8)
            << drawn.text();
      }
      EXPECT_EQ(left, back) << drawn.text();
    }
  });
}

// A tensor that leaves in part is there twice while it is split and while it is joined, and one may
// be split while another one is joined.
TEST(OffloadLaws, TheDeviceHoldsNoMoreThanWithoutItButForTensorsThatLeaveInPart) {
  for_each_offload([](const Case& drawn, const Case& without) {
    const PipelineSchedule some = drawn.pipeline(), none = without.pipeline();
    for (std::size_t place = 0; place < some.stages.size(); ++place) {
      const Schedule& schedule = some.stage(place).schedule;
      Bytes largest;
      for (const Buffer& buffer : schedule.buffers)
        if (buffer.kind == BufferKind::transient && buffer.space == Space::device)
          largest = std::max(largest, buffer.bytes(assumed_bindings(schedule)));
      EXPECT_LE(peak_of(some, place, Space::device),
                peak_of(none, place, Space::device) + largest + largest)
          << drawn.text();
      EXPECT_EQ(peak_of(none, place, Space::host), Bytes(0));
    }
  });
}

TEST(OffloadLaws, ChunksThatOffloadHaveCopiesInEveryStageButTheLastOfASingleChunk) {
  for_each_offload([](const Case& drawn, Case) {
    const PipelineSchedule pipeline = drawn.pipeline();
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const bool ends = place + 1 == pipeline.stages.size() && drawn.strategy.virtual_stages == 1;
      const bool has_layers = pipeline.stage(place).layers > 0;
      EXPECT_EQ(peak_of(pipeline, place, Space::host) > Bytes(0), !ends && has_layers)
          << drawn.text();
    }
  });
}

TEST(OffloadLaws, AStepIsNoShorterThanWithoutIt) {
  const Profile profile = Catalogue{XT_DATA_ROOT}.machine("h100_sxm");
  const auto step = [&](const PipelineSchedule& pipeline) {
    return simulate(pipeline, times_of(pipeline, profile)).end;
  };
  for_each_offload([&](const Case& drawn, const Case& without) {
    EXPECT_GE(step(drawn.pipeline()), step(without.pipeline())) << drawn.text();
  });
}

}  // namespace
}  // namespace xt::test
