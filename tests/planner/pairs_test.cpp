// A micro-step forward while the one before runs backward: the same work, less of its traffic
// exposed, for the activations of one more layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Plan plan_of(const Flags& more) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"machine", "h100_sxm"},
                       {"devices", "8"},           {"engine", "megatron"},
                       {"recompute", "none"},      {"pack_length", "4096"},
                       {"expert_parallel", "8"},   {"gradient_accumulation", "4"}};
  return test::plan_of(test::with(flags, more));
}

Estimate estimate_of(const Flags& more) { return estimate(plan_of(more)); }

const Flags pairs = {{"expert_parallel_overlap", "true"}};

// How often a step runs each work of products, attention and traffic.
std::map<std::string, std::int64_t> runs_of_works(const Schedule& schedule) {
  std::map<std::string, std::int64_t> runs;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Work& work = schedule.work(schedule.ops[i]);
      const KernelClass of = kernel_class(work.kernel);
      if (of == KernelClass::memory_bound || of == KernelClass::host) continue;
      std::string key(name(work.kernel));
      for (const Extent& extent : work.extents)
        key += extent.is_symbol() ? " rows" : " " + std::to_string(extent.code);
      runs[key] += section.repeat;
    }
  return runs;
}

TEST(Pairs, RunWhatMicroStepsRunAlone) {
  for (const std::string_view n : {"2", "3", "8"}) {
    const Flags steps = {{"gradient_accumulation", std::string(n)}};
    EXPECT_EQ(runs_of_works(estimate_of(test::with(pairs, steps)).schedule),
              runs_of_works(estimate_of(steps).schedule))
        << n;
  }
}

// How long a micro-step takes that is neither the first nor the last.
double micro_step(const Flags& more) {
  const auto step = [&](const char* n) {
    return estimate_of(test::with(more, {{"gradient_accumulation", n}})).account.step.value;
  };
  return (step("16") - step("8")) / 8;
}

TEST(Pairs, HideExchangesBehindTheOtherMicroStep) {
  EXPECT_LT(micro_step(pairs), 0.95 * micro_step({}));
}

Bytes peak_of(const Estimate& answer) { return answer.timeline.device_memory.peak; }

// While one micro-step gives up a layer the other makes one.
TEST(Pairs, HoldOneMicroStepAndAFewLayers) {
  const Estimate alone = estimate_of({}), paired = estimate_of(pairs);
  const MemoryPeak kept =
      memory_peak_in(alone.schedule, assumed_bindings(alone.schedule), Space::device, Phase::loss);
  const double saved = static_cast<double>(
      kept.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value);
  const double more = static_cast<double>((peak_of(paired) - peak_of(alone)).value);
  EXPECT_GE(more, 0);
  EXPECT_LT(more, saved / 48 * 4);
}

std::string refusal_of(const Flags& flags) {
  return test::refusal_by([&] { plan_of(test::with(pairs, flags)); });
}

TEST(Pairs, AreRefusedWhereThereIsNothingToPair) {
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_THAT(refusal_of({{"gradient_accumulation", "1"}}), HasSubstr("one micro-step has no"));
  EXPECT_THAT(refusal_of({{"expert_parallel", "1"}}), HasSubstr("no rows are exchanged"));
  EXPECT_THAT(refusal_of({{"recompute", "all"}}), HasSubstr("not recomputed whole"));
  EXPECT_EQ(refusal_of({{"recompute", "all"}, {"recompute_ops", "attention"}}), "");
  EXPECT_THAT(refusal_of({{"swap", "all"}}), HasSubstr("where micro-steps run in pairs"));
  EXPECT_THAT(refusal_of({{"engine", "torchtitan"}}), HasSubstr("two micro-steps at once"));
  EXPECT_THAT(refusal_of({{"devices", "16"}, {"pipeline_parallel", "2"}}),
              HasSubstr("pairs of micro-steps in a pipeline"));
}

}  // namespace
}  // namespace xt
