// Stages of ZeRO: what outlasts a step on a rank, and what a step sends.
//
// Source: Rajbhandari et al. 2019, "ZeRO", arXiv 1910.02054, figure 1 and section 7

#include <gtest/gtest.h>

#include <array>

#include "costmodel/ir/memory.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t d = 8;  // data-parallel ranks

Plan plan_with(const Flags& more) {
  return test::plan_of(test::with(
      {{"model", "qwen3_8b"}, {"machine", "h100_sxm"}, {"devices", "8"}, {"engine", "megatron"}},
      more));
}

double parameters_of(const Plan& plan) {
  return static_cast<double>(count_parameters(graph_of(plan), 1));
}

// Bytes a parameter that outlast a step.
double resident(const Plan& plan, MemoryCategory category) {
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  std::int64_t bytes = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (buffer.kind == BufferKind::resident && buffer.category == category)
      bytes += buffer.bytes(assumed_bindings(schedule)).value;
  return static_cast<double>(bytes) / parameters_of(plan);
}

// Weights in 16 bits, gradients as they are reduced, fp32 weights and two moments.
struct Kept {
  double weights, gradients, optimizer;
};

void expect_kept(const Plan& plan, const Kept& kept) {
  EXPECT_NEAR(resident(plan, MemoryCategory::parameters), kept.weights, 1e-3);
  EXPECT_NEAR(resident(plan, MemoryCategory::gradients), kept.gradients, 1e-3);
  EXPECT_NEAR(resident(plan, MemoryCategory::optimizer), kept.optimizer, 1e-3);
}

TEST(Stages, ARankKeepsWhatItsStageDoesNotSplit) {
  const Flags bf16 = {{"reduce_dtype", "bf16"}};
  expect_kept(plan_with({{"zero", "0"}}), {2, 4, 12});
  expect_kept(plan_with({{"zero", "1"}}), {2, 4, 12.0 / d});
  expect_kept(plan_with(test::with({{"zero", "1"}}, bf16)), {2, 2, 12.0 / d});
  const Flags deepspeed = {{"engine", "deepspeed"}};
  expect_kept(plan_with(test::with(deepspeed, {{"zero", "1"}})), {2, 2, 12.0 / d});
  expect_kept(plan_with(test::with(deepspeed, {{"zero", "2"}})), {2, 0, 12.0 / d});
  expect_kept(plan_with(test::with(deepspeed, {{"zero", "3"}})), {2.0 / d, 2.0 / d, 12.0 / d});
}

// Bytes a parameter of messages over the data-parallel ranks in one step.
double sent(const Plan& plan, Kernel kernel) {
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  double bytes = 0;
  for (const Section& section : schedule.sections)
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Work& work = schedule.work(schedule.ops[i]);
      if (work.kernel == kernel && work.group == Group::shard)
        bytes += static_cast<double>(section.repeat * work.extents[0].code * width(work.dtype));
    }
  return bytes / parameters_of(plan);
}

struct Sent {
  double all_gather, reduce_scatter, all_reduce;
};

void expect_sent(const Plan& plan, const Sent& expected) {
  EXPECT_NEAR(sent(plan, Kernel::all_gather), expected.all_gather, 2e-3);
  EXPECT_NEAR(sent(plan, Kernel::reduce_scatter), expected.reduce_scatter, 2e-3);
  EXPECT_NEAR(sent(plan, Kernel::all_reduce), expected.all_reduce, 2e-3);
}

TEST(Stages, BelowTheSecondGradientsAreReducedOnceAStep) {
  for (const char* micro_steps : {"1", "2", "5"}) {
    const Flags more = {{"gradient_accumulation", micro_steps}};
    expect_sent(plan_with(test::with({{"zero", "0"}}, more)), {0, 0, 4});
    expect_sent(plan_with(test::with({{"zero", "1"}}, more)), {2, 4, 0});
    expect_sent(plan_with(test::with({{"engine", "deepspeed"}, {"zero", "1"}}, more)), {2, 2, 0});
  }
}

TEST(Stages, FromTheSecondGradientsAreReducedInEveryMicroStep) {
  for (const std::int64_t n : {1, 2, 5}) {
    const Flags more = {{"engine", "deepspeed"}, {"gradient_accumulation", std::to_string(n)}};
    const auto times = static_cast<double>(n);
    expect_sent(plan_with(test::with({{"zero", "2"}}, more)), {2, 2 * times, 0});
    EXPECT_NEAR(sent(plan_with(test::with({{"zero", "3"}}, more)), Kernel::reduce_scatter),
                2 * times, 2e-3);
  }
}

// MindFormers sums gradients in fp32 over micro-steps; those of a single one it splits at once.
TEST(Stages, MindFormersKeepsGradientsOnlyWhereMicroStepsAddToThem) {
  const auto plan = [](const char* micro_steps) {
    return plan_with({{"engine", "mindformers"}, {"gradient_accumulation", micro_steps}});
  };
  EXPECT_NEAR(resident(plan("2"), MemoryCategory::gradients), 2, 1e-3);
  EXPECT_EQ(resident(plan("1"), MemoryCategory::gradients), 0);
  expect_sent(plan("1"), {2, 2, 0});
  expect_sent(plan("2"), {2, 2, 0});
}

// Stage 3 gathers weights in both passes; the last layer, embedding and head once.
TEST(Stages, TheThirdGathersWeightsTwice) {
  const double gathered =
      sent(plan_with({{"engine", "deepspeed"}, {"zero", "3"}}), Kernel::all_gather);
  EXPECT_GT(gathered, 3.2);
  EXPECT_LT(gathered, 4);
}

TEST(Stages, OneRankSendsNothing) {
  for (const char* zero : {"0", "1"})
    expect_sent(plan_with({{"devices", "1"}, {"zero", zero}}), {0, 0, 0});
}

// Megatron's reductions run behind the backward pass of the last micro-step and its gathers behind
// the first forward pass, so little of either is exposed inside a node.
TEST(Stages, MegatronHidesReductionsAndGathers) {
  const Estimate answer = estimate(plan_with({{"zero", "1"}, {"pack_length", "8192"}}));
  double exposed = 0, total = 0;
  for (const TrafficTime& time : answer.account.traffic) {
    exposed += time.exposed.value;
    total += time.total.value;
  }
  EXPECT_GT(total, 0);
  EXPECT_LT(exposed / total, 0.25);
}

}  // namespace
}  // namespace xt
