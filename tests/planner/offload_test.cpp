// What chunks of a pipeline keep, in host memory between their passes: when it is copied, how much
// of it, what that costs, and who can do it.

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/ir/chunk_copies.h"
#include "costmodel/sim/pipeline.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/pipeline.h"
#include "planner/validate/row_plan.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::plan_in_stages;

// Equal stages of so many chunks, each with a forward pass, a copy out, one back, and a backward.
PipelineSchedule bare(std::int32_t stages, std::int32_t chunks, std::int32_t micro_batches) {
  PipelineSchedule pipeline;
  pipeline.micro_batches = micro_batches;
  Stage& stage = pipeline.distinct.emplace_back();
  for (std::int32_t c = 0; c < chunks; ++c) stage.chunks.push_back({1, 1, 4, 4, true});
  stage.schedule.sections.resize(6);
  pipeline.stages.assign(static_cast<std::size_t>(stages), 0);
  pipeline.orders = one_forward_one_backward(stages, chunks, micro_batches);
  return pipeline;
}

std::vector<PassCopies> copies_of_stage(std::int32_t place, std::int32_t stages,
                                        std::int32_t micro_batches) {
  const PipelineSchedule pipeline = bare(stages, 1, micro_batches);
  return copies_of(pipeline.stage(0), pipeline.orders[static_cast<std::size_t>(place)]);
}

// Forward 0, forward 1, forward 2, backward 0, forward 3, backward 1, backward 2, backward 3.
TEST(Offload, ACopyBeginsWithTheNextPassAndIsWaitedForByTheNextOneButAForwardBehindABackward) {
  using Runs = std::vector<ChunkRun>;
  const std::vector<PassCopies> expected = {
      {true, {}, std::nullopt, false},
      {true, Runs{{0, 0, false}}, std::nullopt, false},
      {true, Runs{{0, 1, false}}, ChunkRun{0, 0, true}, false},
      {true, Runs{{0, 2, false}}, ChunkRun{0, 1, true}, false},
      {false, {}, std::nullopt, false},
      {true, Runs{{0, 3, false}}, ChunkRun{0, 2, true}, false},
      {true, {}, ChunkRun{0, 3, true}, false},
      {true, {}, std::nullopt, false}};
  EXPECT_EQ(copies_of_stage(0, 3, 4), expected);
}

TEST(Offload, WhatIsWantedBackAtOnceComesBackBehindItsCopyOut) {
  const std::vector<PassCopies> copies = copies_of_stage(0, 2, 3);
  EXPECT_TRUE(copies[1].in_follows_out);
  EXPECT_EQ(copies[1].in, (ChunkRun{0, 0, true}));
}

constexpr std::int64_t forward = 6'000, backward = 12'000;  // ns of a chunk

std::int64_t step_of(std::int64_t copy) {
  const PipelineSchedule pipeline = bare(4, 2, 8);
  const auto taking = [](std::int64_t ns) {
    return SectionTime{Duration(ns), Duration(ns), Duration(0)};
  };
  const SectionTime copying{Duration(0), Duration(copy), Duration(0)};
  PipelineTimes times;
  times.sections = {{taking(0), taking(forward), copying, copying, taking(backward), taking(0)}};
  times.transfers.assign(4, Duration(0));
  return (simulate(pipeline, times).end - Instant{}).count();
}

TEST(Offload, CopiesNoLongerThanAForwardPassAreHidden) {
  EXPECT_EQ(step_of(forward), step_of(0));
  EXPECT_GT(step_of(forward + 1), step_of(0));
}

TEST(Offload, CopiesLongerThanAPassInEachDirectionSetThePace) {
  constexpr std::int64_t copy = 100'000, chunks = 2, micro_batches = 8;
  EXPECT_GE(step_of(copy), chunks * micro_batches * copy);
}

// Two micro-batches of the first of four stages: one on its way back, and the one before it. For
// what a layer keeps see tensor_parallel_test.
TEST(Offload, TheHostHoldsTheShareOfWhatLayersKeep) {
  constexpr std::int64_t s = 2048, h = 4096, heads = 32, layers = 8;
  constexpr std::int64_t of_layer = s * (32 * h + 2 * 2 * 4 + 4 * heads);
  const auto on_host = [](const std::string& share) {
    return estimate(plan_in_stages({{"offload_share", share}})).timeline.host_memory.peak.value;
  };
  EXPECT_EQ(on_host("1"), 2 * layers * of_layer);
  EXPECT_EQ(on_host("0.25"), 2 * layers * of_layer / 4);
  EXPECT_EQ(on_host("0"), 0);
}

TEST(Offload, FlopsAndTheLastStageAreAsWithoutIt) {
  const Estimate with = estimate(plan_in_stages({{"offload_share", "0.5"}}));
  const Estimate without = estimate(plan_in_stages({}));
  EXPECT_EQ(with.hardware_flops, without.hardware_flops);
  EXPECT_EQ(with.pipeline->stages[3].peak, without.pipeline->stages[3].peak);
  EXPECT_LT(with.pipeline->stages[0].peak, without.pipeline->stages[0].peak);
}

std::string problem_of(const Flags& more) {
  try {
    plan_in_stages(test::with({{"offload_share", "0.5"}}, more));
  } catch (const InputError& error) {
    return error.problems().front().message;
  }
  return {};
}

TEST(Offload, WhoCannotOffloadSaysSo) {
  EXPECT_EQ(problem_of({}), "");
  EXPECT_EQ(problem_of({{"engine", "mindspeed"}}),
            "mindspeed keeps what its chunks need on the device");
  EXPECT_EQ(problem_of({{"pipeline_parallel", "1"}}),
            "chunks of a pipeline are offloaded, and there is none");
  EXPECT_EQ(problem_of({{"gradient_accumulation", "1"}}),
            "a single micro-step needs at once what it has just kept");
  EXPECT_EQ(problem_of({{"model", "qwen3_30b_a3b"}}),
            "not supported: as many rows of experts as the router decides on");
}

std::vector<PublishedRow> rows_of_kwai() {
  const std::vector<std::filesystem::path> paths = {std::filesystem::path(XT_DATA_ROOT) / "tests" /
                                                    "published" / "published.json"};
  std::vector<PublishedRow> rows = read_published(paths);
  std::erase_if(rows, [](const PublishedRow& row) { return !row.id.starts_with("kwai"); });
  return rows;
}

TEST(Offload, PublishedSharesAreWhatChunksOffload) {
  std::vector<PublishedRow> rows = rows_of_kwai();
  const Profiles profiles = profiles_of(rows, Catalogue{XT_DATA_ROOT});
  const auto row = std::ranges::find(rows, "kwai-atc24-275cd582", &PublishedRow::id);
  ASSERT_NE(row, rows.end());
  const RowPlan plan = plan_of(*row, profiles);
  EXPECT_DOUBLE_EQ(plan.plan.value().strategy.offload_share, 0.63);
  row->offload = "activations, share 0.630 of the optimizer";
  EXPECT_EQ(plan_of(*row, profiles).reason,
            "offload of other than inputs of layers, or optimizer and weights");
}

// The search of the source takes the memory that its devices have.
TEST(Offload, PublishedStepsThatOffloadFillTheirDevicesButFit) {
  const std::vector<PublishedRow> rows = rows_of_kwai();
  const Profiles profiles = profiles_of(rows, Catalogue{XT_DATA_ROOT});
  int n = 0;
  for (const PublishedRow& row : rows) {
    if (!row.offload) continue;
    const Estimate answer = estimate(plan_of(row, profiles).plan.value());
    EXPECT_GT(answer.timeline.device_memory.peak, Bytes(std::int64_t{57} << 30)) << row.id;
    EXPECT_LT(answer.timeline.device_memory.peak, Bytes(std::int64_t{66} << 30)) << row.id;
    ++n;
  }
  EXPECT_EQ(n, 25);
}

}  // namespace
}  // namespace xt
