// The trace of a measured plan: ranks and steps on one clock, and arrows between ranks that meet.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "costmodel/io/json_document.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "planner/compare/compare.h"
#include "planner/lower/lower.h"

namespace xt {
namespace {

using testing::HasSubstr;

constexpr const char* config = R"({
  "model_type": "qwen3_moe", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64,
  "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
  "norm_topk_prob": true, "tie_word_embeddings": false, "rope_theta": 10000.0
})";

Schedule schedule_of_four_ranks() {
  Strategy strategy;
  strategy.ranks = 4;
  strategy.expert_parallel = 2;
  strategy.intra_layer_micro_batches = 2;
  strategy.pack_length = strategy.sample_length = strategy.loss_chunk = 64;
  const Architecture model =
      read<ModelConfig>(parse_json_document({"config.json", config})).architecture;
  return lower(build_decoder(model, graph_options(strategy)), strategy);
}

/// A step in which each op takes `length`, one behind the other.
Timeline step_of(const Schedule& schedule, std::int32_t rank, std::int32_t step, Duration length) {
  Timeline timeline;
  timeline.rank = rank;
  timeline.step = step;
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    const Instant start = timeline.end;
    timeline.end += length;
    timeline.events.push_back({OpId(static_cast<std::uint32_t>(op)), 0, start, timeline.end});
  }
  return timeline;
}

/// Steps 3 and 4 on four ranks; rank r begins r microseconds late and takes r + 1 for an op.
MeasuredPlan plan_of_four_ranks() {
  MeasuredPlan plan;
  plan.schedule = schedule_of_four_ranks();
  plan.predicted = step_of(plan.schedule, 0, 0, Duration(500));
  for (std::int32_t rank = 0; rank < 4; ++rank)
    for (std::int32_t step = 3; step < 5; ++step) {
      plan.measured.push_back(step_of(plan.schedule, rank, step, Duration(1000 * (rank + 1))));
      plan.clock_offsets.push_back(Duration(1000 * rank));
      plan.step_starts.push_back(Duration(1'000'000'000) * step);
    }
  return plan;
}

std::vector<Json> events_of(const Json& trace, std::string_view kind) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents").items())
    if (event.at("ph").as_text() == kind) found.push_back(event);
  return found;
}

TEST(ChromeTrace, HasAProcessForEachRankAndAThreadForEachLane) {
  const Json trace = parse_json(chrome_trace(plan_of_four_ranks()).dump());
  std::map<std::int64_t, std::string> processes;
  std::set<std::string> threads;
  for (const Json& event : events_of(trace, "M")) {
    const std::string& name = event.at("args").at("name").as_text();
    if (event.at("name").as_text() == "process_name")
      processes[event.at("pid").as_int()] = name;
    else if (event.at("pid").as_int() == 2)
      threads.insert(name);
  }
  EXPECT_EQ(processes,
            (std::map<std::int64_t, std::string>{
                {0, "predicted"}, {1, "rank 0"}, {2, "rank 1"}, {3, "rank 2"}, {4, "rank 3"}}));
  EXPECT_EQ(threads.size(), n_lanes + 1);
  for (const std::string_view lane : lane_names) EXPECT_TRUE(threads.contains(std::string(lane)));
}

TEST(ChromeTrace, PutsStepsAndRanksOnOneClock) {
  const Json trace = chrome_trace(plan_of_four_ranks());
  std::map<std::pair<std::int64_t, std::string>, double> begins;
  for (const Json& event : events_of(trace, "X"))
    if (event.at("cat").as_text() == "step")
      begins[{event.at("pid").as_int(), event.at("name").as_text()}] = event.at("ts").as_double();
  EXPECT_EQ(begins.at({1, "step 3"}), 0);    // the earliest is zero
  EXPECT_EQ(begins.at({4, "step 3"}), 3);    // microseconds: three later than rank 0
  EXPECT_EQ(begins.at({1, "step 4"}), 1e6);  // a second behind step 3
  EXPECT_EQ(begins.at({4, "step 4"}), 1e6 + 3);
  EXPECT_THAT(trace.at("otherData").at("clock").as_text(), HasSubstr("rank 0's steady clock"));
}

TEST(ChromeTrace, NamesLayerPhaseAndMicroBatchOfEveryOp) {
  const MeasuredPlan plan = plan_of_four_ranks();
  std::set<std::string> names;
  std::size_t n_ops = 0, n_of_micro_batch = 0;
  for (const Json& event : events_of(chrome_trace(plan), "X")) {
    if (event.at("cat").as_text() == "step") continue;
    ++n_ops;
    names.insert(event.at("name").as_text());
    const Json* micro_batch = event.at("args").find("micro_batch");
    if (micro_batch == nullptr) continue;
    ++n_of_micro_batch;
    EXPECT_THAT(event.at("name").as_text(),
                HasSubstr("micro-batch " + std::to_string(micro_batch->as_int())));
    EXPECT_THAT(event.at("name").as_text(),
                HasSubstr("layer " + std::to_string(event.at("args").at("layer").as_int())));
  }
  EXPECT_EQ(n_ops, plan.schedule.ops.size() * (8 + 2));  // four ranks and a prediction, two steps
  EXPECT_GT(n_of_micro_batch, 0u);
  for (std::size_t op = 0; op < plan.schedule.ops.size(); ++op)
    EXPECT_TRUE(names.contains(op_name(plan.schedule, OpId(static_cast<std::uint32_t>(op)))));
}

TEST(ChromeTrace, LinksRanksThatMeetFromTheFirstToTheLast) {
  const MeasuredPlan plan = plan_of_four_ranks();
  const Json trace = chrome_trace(plan);
  std::set<std::tuple<std::int64_t, std::int64_t, double>> slices;
  for (const Json& event : events_of(trace, "X"))
    slices.insert({event.at("pid").as_int(), event.at("tid").as_int(), event.at("ts").as_double()});
  std::map<std::int64_t, std::vector<Json>> arrows;
  for (const Json& event : trace.at("traceEvents").items())
    if (const Json* id = event.find("id")) arrows[id->as_int()].push_back(event);
  std::size_t expected = 0;
  for (const Op& op : plan.schedule.ops) {
    const Work& work = plan.schedule.work(op);
    const std::int32_t size = plan.schedule.group(work.group).size;
    if (kernel_class(work.kernel) == KernelClass::collective && size > 1)
      expected += static_cast<std::size_t>(2 * 4 / size);  // steps, groups of four ranks
  }
  EXPECT_EQ(arrows.size(), expected);
  std::set<std::size_t> sizes;
  for (const auto& [id, ends] : arrows) {
    sizes.insert(ends.size());
    EXPECT_EQ(ends.front().at("ph").as_text(), "s");
    EXPECT_EQ(ends.back().at("ph").as_text(), "f");
    EXPECT_LE(ends.front().at("ts").as_double(), ends.back().at("ts").as_double());
    std::set<std::int64_t> processes;
    for (const Json& end : ends) {
      processes.insert(end.at("pid").as_int());
      EXPECT_TRUE(slices.contains(
          {end.at("pid").as_int(), end.at("tid").as_int(), end.at("ts").as_double()}));
    }
    EXPECT_EQ(processes.size(), ends.size());
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{2, 4}));  // experts' groups, and all ranks
}

}  // namespace
}  // namespace xt
