#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/ir/alive.h"
#include "costmodel/ir/verify.h"
#include "costmodel/sim/pipeline.h"
#include "pipeline_times.h"
#include "planner/estimate/estimate.h"
#include "strategies.h"

namespace xt::test {
namespace {

constexpr int n_cases = 20;

// The same model and step on ranks that all have all layers.
Case without_stages(const Case& drawn) {
  Case alone = drawn;
  alone.strategy.ranks = drawn.strategy.stage_ranks();
  alone.strategy.pipeline_parallel = alone.strategy.virtual_stages = 1;
  return alone;
}

TEST(PipelineLaws, EveryStageKeepsTheRules) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    for (const Stage& stage : drawn.pipeline().distinct) {
      const std::vector<std::string> problems = verify(stage.schedule);
      EXPECT_TRUE(problems.empty()) << drawn.text() << "\n" << problems.front();
    }
  });
}

TEST(PipelineLaws, LoweringTwiceGivesTheSamePipeline) {
  for_each_pipeline(
      3, [](const Case& drawn) { EXPECT_EQ(drawn.pipeline(), drawn.pipeline()) << drawn.text(); });
}

TEST(PipelineLaws, AStageRunsEveryMicroBatchThroughEveryChunkInBothDirections) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    std::int64_t layers = 0;
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      std::vector<ChunkRun> runs = pipeline.orders[place];
      std::ranges::sort(runs);
      EXPECT_EQ(std::ranges::unique(runs).size(), 0u) << drawn.text();
      const std::int64_t passes =
          drawn.strategy.pipeline_schedule == ChunkOrder::zero_bubble ? 3 : 2;
      EXPECT_EQ(static_cast<std::int64_t>(runs.size()),
                passes * drawn.strategy.virtual_stages * drawn.strategy.gradient_accumulation);
      layers += pipeline.stage(place).layers;
    }
    EXPECT_EQ(layers, drawn.model.num_hidden_layers) << drawn.text();
  });
}

// A pair takes what a forward pass left and leaves what a backward pass takes.
TEST(PipelineLaws, PairsAreSectionsThatOrdersContain) {
  int n_pairs = 0;
  for_each_pipeline(n_cases, [&](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    std::vector<std::set<std::uint32_t>> run(pipeline.distinct.size());
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const std::vector<ChunkRun>& order = pipeline.orders[place];
      for (std::size_t i = 0; i < order.size(); i += runs_at(order, i).size()) {
        if (!order[i].with_next) continue;
        ++n_pairs;
        EXPECT_TRUE(!order[i].is_backward && order[i + 1].is_backward) << drawn.text();
        EXPECT_TRUE(order[i].micro_batch > 0 &&
                    order[i + 1].micro_batch + 1 < pipeline.micro_batches)
            << drawn.text();
        run[pipeline.stages[place]].insert(
            section_of(pipeline.stage(place), runs_at(order, i), pipeline.micro_batches));
      }
    }
    for (std::size_t i = 0; i < pipeline.distinct.size(); ++i) {
      std::set<std::uint32_t> sections;
      for (const ChunkPair& pair : pipeline.distinct[i].pairs) sections.insert(pair.section);
      EXPECT_EQ(sections, run[i]) << drawn.text();
      EXPECT_LE(sections.size(), 3 * pipeline.distinct[i].chunks.size()) << drawn.text();
    }
  });
  EXPECT_GT(n_pairs, 100);
}

TEST(PipelineLaws, StagesTogetherDoWhatOneDoesAlone) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    Flops model, hardware;
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const Stage& stage = pipeline.stage(place);
      const auto runs = section_runs(stage, pipeline.orders[place], pipeline.micro_batches);
      model += model_flops(stage.schedule, runs, assumed_bindings(stage.schedule));
      hardware += hardware_flops(stage.schedule, runs, assumed_bindings(stage.schedule));
    }
    const Schedule alone = without_stages(drawn).schedule();
    const Bindings bindings = assumed_bindings(alone);
    EXPECT_NEAR(model / model_flops(alone, bindings), 1, 1e-9) << drawn.text();
    // Which layers are recomputed differs, and layers of different kinds take differently long.
    if (drawn.graph().decoder.size() == 1 || drawn.strategy.recompute_layers == 0) {
      EXPECT_NEAR(hardware / hardware_flops(alone, bindings), 1, 1e-9) << drawn.text();
    }
  });
}

// Padding of flat buffers aside; a tied embedding is on two stages.
TEST(PipelineLaws, StagesTogetherHaveTheParametersOfTheModel) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    const auto elements = [](const Schedule& schedule) {
      std::int64_t n = 0;
      for (const Flat& flat : schedule.flats) n += flat.elements;
      return n;
    };
    std::int64_t sum = 0;
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place)
      sum += elements(pipeline.stage(place).schedule);
    Case alone = without_stages(drawn);
    const Schedule schedule = alone.schedule();
    alone.model.tie_word_embeddings = false;
    EXPECT_EQ(sum, elements(alone.schedule())) << drawn.text();
    EXPECT_GE(sum, elements(schedule)) << drawn.text();
  });
}

TEST(PipelineLaws, AStepIsNoShorterThanWhatAnyStageRunsAndNoLongerThanAllOneAfterTheOther) {
  const Profile profile = Catalogue{XT_DATA_ROOT}.machine("h100_sxm");
  for_each_pipeline(5, [&](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    const PipelineTimes times = times_of(pipeline, profile);
    const PipelineTimeline timeline = simulate(pipeline, times);
    Duration all{};
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const std::vector<SectionTime>& sections = times.sections[pipeline.stages[place]];
      Duration busy = sections.front().drained + sections.back().drained + timeline.tails[place];
      all += busy;
      const Stage& stage = pipeline.stage(place);
      const auto runs = section_runs(stage, pipeline.orders[place], pipeline.micro_batches);
      for (std::size_t s = 1; s + 1 < runs.size(); ++s)
        if (sections[s].computed == Duration{}) all += runs[s] * sections[s].drained;  // copies
      Instant earlier{};
      for (const ChunkEvent& event : timeline.stages[place]) {
        EXPECT_GE(event.start, earlier) << drawn.text();
        earlier = event.end;
        busy += event.end - event.start;
        all += event.end - event.start + 2 * times.transfers[place];
      }
      EXPECT_LE(busy, timeline.end - Instant{}) << drawn.text();
    }
    EXPECT_GE(all, timeline.end - Instant{}) << drawn.text();
  });
}

TEST(PipelineLaws, PeakByCategoryAddsUpToThePeakAndIsNoLowerThanOfOneMicroBatch) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const Stage& stage = pipeline.stage(place);
      const Bindings bindings = assumed_bindings(stage.schedule);
      const MemoryPeak peak =
          stage_peak(stage, pipeline.orders[place], pipeline.micro_batches, bindings, Space::device)
              .memory;
      Bytes sum;
      for (const Bytes bytes : peak.by_category) sum += bytes;
      EXPECT_EQ(sum, peak.peak) << drawn.text();
      EXPECT_GE(peak.peak, memory_peak(stage.schedule, bindings, Space::device).peak)
          << drawn.text();
    }
  });
}

TEST(PipelineLaws, WhoIsAliveInAllMicroBatchesAddsUpToThePeakOfEverySpace) {
  for_each_pipeline(n_cases, [](const Case& drawn) {
    const PipelineSchedule pipeline = drawn.pipeline();
    for (std::size_t place = 0; place < pipeline.stages.size(); ++place) {
      const Stage& stage = pipeline.stage(place);
      const Bindings bindings = assumed_bindings(stage.schedule);
      for (const Space space : {Space::device, Space::host}) {
        const StagePeak peak =
            stage_peak(stage, pipeline.orders[place], pipeline.micro_batches, bindings, space);
        CategoryBytes by_category{};
        for (const Holders& of :
             holders_at(stage.schedule, bindings, space, peak.memory.op, peak.runs)) {
          EXPECT_GT(of.n_buffers, 0) << drawn.text();
          EXPECT_GE(of.bytes, Bytes{}) << drawn.text();
          by_category[static_cast<std::size_t>(of.category)] += of.bytes;
        }
        EXPECT_EQ(by_category, peak.memory.by_category) << drawn.text();
      }
    }
  });
}

}  // namespace
}  // namespace xt::test
