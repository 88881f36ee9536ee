#include "costmodel/io/schedule_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/io/timeline_lines.h"
#include "costmodel/ir/schedule_builder.h"

namespace xt {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    std::string text = error.what();
    for (const Diagnostic& problem : error.problems()) text += " | " + problem.hint;
    return text;
  }
  return "accepted";
}

/// Two lanes, a symbol, a view, workspace, a flat and a placement.
Schedule sample() {
  ScheduleBuilder build("xt_run", 2);
  const SymbolId rows = build.symbol(SymbolKind::rows_received, 3, 40, 2, 1);
  const BufferId weight = build.resident({{64, 1, 1}, DType::fp32, MemoryCategory::parameters});
  const BufferId x = build.transient({{Extent::of(rows), 8, 1}, DType::bf16});
  const BufferId part = build.view(weight, 16, {4, 1, 1}, DType::fp32);
  const std::array<BufferId, 1> in{part}, out{x};
  const std::array<WorkspaceSpec, 1> workspace{{{{2, 2, 1}, DType::fp32}}};
  Work work{Kernel::cast, DType::bf16, Group::none, {Extent::of(rows), 8}};
  build.add(
      {work, Lane::compute, {Phase::forward, build.part("proj"), 3, -1}, in, out, workspace, {}});
  work = {Kernel::all_reduce, DType::bf16, Group::world, {Extent::of(rows)}};
  build.add(
      {work, Lane::reduce_scatter, {Phase::reduce, build.part("sum"), -1, 2}, {}, out, {}, {}});
  build.end_section(3, {Phase::reduce, 0, -1, -1});
  build.draft().flats.push_back({"layer 3", Group::shard, 128, weight, weight, weight});
  build.draft().placements.push_back({"model.w", {8, 8, 1}, 2, 1, true, 0, 64});
  build.draft().batch.tokens = weight;
  return std::move(build).finish();
}

TEST(ScheduleLines, ReadBackEqual) {
  const Schedule schedule = sample();
  EXPECT_EQ(parse_schedule_lines("s", schedule_lines(schedule)), schedule);
}

TEST(ScheduleLines, AnotherFormatVersionIsRefusedWithWhatToDo) {
  std::string text = schedule_lines(sample());
  text.replace(text.find("xt.schedule/4"), 13, "xt.schedule/9");
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s", text); }),
              testing::AllOf(HasSubstr("`xt.schedule/9`, expected `xt.schedule/4`"),
                             HasSubstr("make the plan again")));
}

TEST(ScheduleLines, AChangedLineDoesNotMatchTheDigest) {
  std::string text = schedule_lines(sample());
  text.replace(text.find("\"cast\""), 6, "\"add\"");
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s", text); }), HasSubstr("its digest is"));
}

TEST(ScheduleLines, APositionThatPointsNowhereIsRefused) {
  std::string text = schedule_lines(sample());
  text.replace(text.find("[\"op\",0"), 7, "[\"op\",9");
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s", text); }), HasSubstr("does not hold"));
}

TEST(ScheduleLines, AListLongerThanItsCountIsRefused) {
  std::string inputs = "0";
  for (int i = 1; i < 300; ++i) inputs += ",0";
  const std::string text = schedule_lines(sample()) + "[\"op\",0,\"compute\",\"forward\",0,0,0,[" +
                           inputs + "],[],[],[]]\n";
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s.jsonl", text); }),
              HasSubstr("a list of 300 positions"));
}

TEST(ScheduleLines, ASectionBehindTheLastOpIsRefused) {
  const std::string text = schedule_lines(sample()) + "[\"section\",1,90,1]\n";
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s.jsonl", text); }), HasSubstr("is damaged"));
}

TEST(ScheduleLines, ASizeThatCannotBeMultipliedIsRefused) {
  const std::string text =
      schedule_lines(sample()) +
      "[\"buffer\",\"resident\",\"fp32\",\"device\",\"other\",\"compute\",\"compute\","
      "4611686018427387904,4,1,-1,-1]\n";
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s.jsonl", text); }),
              HasSubstr("a size that cannot be"));
}

TEST(ScheduleLines, AnUnknownWordIsReportedAtItsLine) {
  std::string text = schedule_lines(sample());
  text.replace(text.find("\"transient\""), 11, "\"transit\"");
  EXPECT_THAT(refusal([&] { parse_schedule_lines("s", text); }), HasSubstr("s:7:1"));
}

TEST(TimelineLines, ReadBackEqualWithClockOffsets) {
  Timeline timeline;
  timeline.schedule_digest = 0xfedcba9876543210;
  timeline.is_measured = true;
  timeline.rank = 1;
  timeline.step = 7;
  timeline.events = {{OpId{0}, 0, Instant(Duration(5)), Instant(Duration(9))},
                     {OpId{3}, 1, Instant(Duration(9)), Instant(Duration(20))}};
  timeline.bindings = {{40, 3}, {41, 2}};
  timeline.device_memory.peak = Bytes(100);
  timeline.device_memory.op = OpId{3};
  timeline.device_memory.by_category[2] = Bytes(60);
  timeline.end = Instant(Duration(21));
  const std::string text =
      timeline_lines(timeline, Duration(-12), Duration(500)) + timeline_lines(timeline);
  const TimelineFile file = parse_timeline_lines("t", text);
  ASSERT_EQ(file.timelines.size(), 2u);
  EXPECT_EQ(file.clock_offsets, (std::vector<Duration>{Duration(-12), Duration(0)}));
  EXPECT_EQ(file.step_starts, (std::vector<Duration>{Duration(500), Duration(0)}));
  EXPECT_EQ(timeline_lines(file.timelines[1]), timeline_lines(timeline));
  EXPECT_EQ(file.timelines[0].events, timeline.events);
  EXPECT_EQ(file.timelines[0].bindings, timeline.bindings);
  EXPECT_EQ(file.timelines[0].device_memory.by_category, timeline.device_memory.by_category);
  EXPECT_EQ(file.timelines[0].schedule_digest, timeline.schedule_digest);
}

TEST(TimelineLines, AFileWithoutAHeaderIsRefused) {
  EXPECT_THAT(refusal([] { parse_timeline_lines("t", "[1,2,3,4]\n"); }),
              HasSubstr("names no format"));
}

PlanFile sample_plan() {
  PlanFile plan;
  plan.schedule_digest = digest_text(42);
  plan.model_name = "tiny";
  plan.model_type = "qwen3";
  plan.vocab_size = 256;
  plan.machine_name = "here";
  plan.engine = "xt_run";
  plan.pack_length = plan.sample_length = plan.loss_chunk = 512;
  plan.optimizer.warmup_steps = 10;
  plan.prediction.emplace();
  plan.prediction->step_time_s = 0.125;
  plan.prediction->memory_breakdown_bytes.entries = {{"parameters", 1024}};
  plan.prediction->communication.entries = {{"all_gather", {0.5, 0.25}}};
  return plan;
}

TEST(PlanFile, ReadsBackEqualAndRefusesAnotherFormat) {
  const std::filesystem::path folder = testing::TempDir();
  write_plan(folder, sample_plan(), Overwrite::allow);
  EXPECT_EQ(read_plan(folder), sample_plan());
  PlanFile old = sample_plan();
  old.schema = "xt.plan/0";
  write_plan(folder, old, Overwrite::allow);
  EXPECT_THAT(refusal([&] { read_plan(folder); }),
              testing::AllOf(HasSubstr("`xt.plan/0`"), HasSubstr("make the plan again")));
}

}  // namespace
}  // namespace xt
