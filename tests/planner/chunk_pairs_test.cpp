// Chunks of a pipeline stage in pairs, one forward while another runs backward: the same work
// behind one forward pass more, less of its traffic exposed.
//
// Source: Megatron-LM, core/pipeline_parallel/schedules.py, get_pp_rank_microbatches with
// overlap_moe_expert_parallel_comm, and combined_1f1b.py

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "costmodel/sim/pipeline.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/pipeline.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Plan plan_of(const Flags& more) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"machine", "h100_sxm"},
                       {"devices", "32"},          {"engine", "megatron"},
                       {"recompute", "none"},      {"pack_length", "4096"},
                       {"expert_parallel", "8"},   {"gradient_accumulation", "16"},
                       {"pipeline_parallel", "4"}, {"virtual_stages", "2"}};
  return test::plan_of(test::with(flags, more));
}

const Flags pairs = {{"expert_parallel_overlap", "true"}};

PipelineSchedule pipeline_of(const Flags& more) {
  const Plan plan = plan_of(more);
  return lower_pipeline(graph_of(plan), plan.strategy);
}

// How often all stages run each work of products, attention and traffic in a step.
std::map<std::string, std::int64_t> runs_of_works(const PipelineSchedule& pipeline) {
  std::map<std::string, std::int64_t> result;
  for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
    const Stage& stage = pipeline.stage(place);
    const Schedule& schedule = stage.schedule;
    const auto runs = section_runs(stage, pipeline.orders[place], pipeline.micro_batches);
    for (std::size_t s = 0; s < runs.size(); ++s)
      for (std::size_t i = at(schedule.sections[s].begin); i < at(schedule.sections[s].end); ++i) {
        const Work& work = schedule.work(schedule.ops[i]);
        if (kernel_class(work.kernel) == KernelClass::host) continue;
        std::string key(name(work.kernel));
        for (const Extent& extent : work.extents)
          key += extent.is_symbol() ? " rows" : " " + std::to_string(extent.code);
        result[key] += runs[s];
      }
  }
  std::erase_if(result, [](const auto& of) { return of.second == 0; });
  return result;
}

TEST(ChunkPairs, RunWhatChunksRunAlone) {
  for (const Flags& more :
       {Flags{}, Flags{{"virtual_stages", "3"}}, Flags{{"gradient_accumulation", "4"}},
        Flags{{"pipeline_layers", "3,5,7,7,9,7,5,5"}},
        Flags{{"recompute", "all"}, {"recompute_ops", "norms+attention"}}})
    EXPECT_EQ(runs_of_works(pipeline_of(test::with(pairs, more))),
              runs_of_works(pipeline_of(more)));
}

// All that the warm-up leaves: so many forward passes run beside a backward one.
TEST(ChunkPairs, BeginBehindOneForwardPassMore) {
  for (const std::int32_t p : {2, 4, 8})
    for (const std::int32_t v : {2, 3})
      for (const std::int32_t m : {p, 3 * p}) {
        const auto orders = one_forward_one_backward(p, v, m, true);
        for (std::int32_t i = 0; i < p; ++i) {
          const std::vector<ChunkRun>& order = orders[static_cast<std::size_t>(i)];
          const auto alone = std::ranges::find(order, true, &ChunkRun::with_next) - order.begin();
          const std::int32_t warm_up = 2 * (p - i - 1) + (v - 1) * p + 1;
          const std::int32_t n_pairs = std::max(0, m * v - warm_up);
          EXPECT_EQ(std::ranges::count(order, true, &ChunkRun::with_next), n_pairs);
          EXPECT_TRUE(n_pairs == 0 || alone == warm_up) << p << " " << v << " " << m << " " << i;
        }
      }
}

Seconds step_of(const Flags& more) { return estimate(plan_of(more)).account.step; }

// Of so many further micro-batches, all of which run in pairs.
double further_micro_batches(const Flags& more) {
  const auto step = [&](const char* n) {
    return step_of(test::with(more, {{"gradient_accumulation", n}})).value;
  };
  return step("64") - step("32");
}

TEST(ChunkPairs, HideExchangesBehindTheOtherPass) {
  EXPECT_LT(further_micro_batches(pairs), 0.95 * further_micro_batches({}));
}

// Equal stages without anything inside, whose pairs take so long.
TEST(ChunkPairs, SetThePaceOfTheSteadyState) {
  constexpr std::int64_t forward = 4'000, backward = 8'000, pair = 10'000;
  const auto step = [&](std::int32_t p, std::int32_t v, std::int32_t m) {
    PipelineSchedule pipeline;
    pipeline.micro_batches = m;
    pipeline.orders = one_forward_one_backward(p, v, m, true);
    pipeline.stages.assign(static_cast<std::size_t>(p), 0);
    Stage& stage = pipeline.distinct.emplace_back();
    stage.schedule.sections.resize(5);
    for (std::int32_t f = 0; f < v; ++f) {
      stage.chunks.push_back({1, 1, 2, 2});
      for (std::int32_t b = 0; b < v; ++b) stage.pairs.push_back({f, b, 3});
    }
    PipelineTimes times;
    times.sections.emplace_back();
    for (const std::int64_t ns : {std::int64_t{0}, forward, backward, pair, std::int64_t{0}})
      times.sections.back().push_back({Duration(ns), Duration(ns), Duration(0)});
    times.transfers.assign(pipeline.stages.size(), Duration(0));
    return (simulate(pipeline, times).end - Instant{}).count();
  };
  for (const std::int32_t p : {2, 4, 8})
    for (const std::int32_t v : {2, 3})
      EXPECT_EQ(step(p, v, 6 * p) - step(p, v, 5 * p), p * v * pair) << p << " " << v;
}

// Of one chunk, and what the layer at hand needs.
TEST(ChunkPairs, KeepOneMoreForwardPass) {
  const Estimate alone = estimate(plan_of({})), paired = estimate(plan_of(pairs));
  const MemoryPeak &before = alone.timeline.device_memory, &now = paired.timeline.device_memory;
  const auto saved = [](const MemoryPeak& peak) {
    const auto i = static_cast<std::size_t>(MemoryCategory::saved_activations);
    return static_cast<double>(peak.by_category[i].value);
  };
  constexpr double in_flight = 2 * 3 + 4 + 1;  // chunks of the first stage
  EXPECT_GT(now.peak, before.peak);
  EXPECT_LT(saved(now), saved(before) * (in_flight + 1.5) / in_flight);
}

std::string refusal_of(const Flags& flags) {
  return test::refusal_by([&] { plan_of(test::with(pairs, flags)); });
}

TEST(ChunkPairs, AreRefusedWhereStagesHaveOneChunk) {
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_THAT(refusal_of({{"virtual_stages", "1"}}), HasSubstr("where stages have several chunks"));
  EXPECT_THAT(refusal_of({{"recompute", "all"}}), HasSubstr("not recomputed whole"));
  EXPECT_THAT(refusal_of({{"expert_parallel", "1"}}), HasSubstr("no rows are exchanged"));
}

}  // namespace
}  // namespace xt
