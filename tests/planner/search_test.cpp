// What a search finds against what looking at everything finds, on small drawn spaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

#include "costmodel/document/writer.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"
#include "planner/search/search.h"
#include "tests/planner/plans.h"
#include "tests/properties/strategies.h"

namespace xt {
namespace {

using test::Flags;
using test::with;

// Small enough to be looked at whole: what takes most candidates is given.
const Flags small = {{"model", "drawn"},
                     {"machine", "h800_sxm"},
                     {"devices", "4"},
                     {"pack_length", "512"},
                     {"loss_chunk", "256"}};

// Without stages, which have a test of their own.
Flags small_of(const std::string& engine) {
  const bool chunks = engine_named(engine)->chunks_loss;
  return with(
      small,
      {{"engine", engine}, {"loss_chunk", chunks ? "256" : "none"}, {"pipeline_parallel", "1"}});
}

Subject drawn_subject(std::mt19937& random, const Family& family) {
  Architecture model = test::draw_model(random, family);
  model.max_position_embeddings = 512;
  model.num_hidden_layers = std::max<std::int64_t>(model.num_hidden_layers, 3);
  return {"drawn", model, "h800_sxm", Catalogue{XT_DATA_ROOT}.machine("h800_sxm")};
}

// `visit(engine, subject)` for drawn models of families that the engine prices.
void for_each_subject(const std::function<void(const std::string&, const Subject&)>& visit) {
  std::mt19937 random(20261130);
  for (const EngineRules& engine : engines())
    for (const Family& family : families())
      if (!engine.is_executed || family.is_executed)
        visit(std::string(engine.name), drawn_subject(random, family));
}

Search searched(const Flags& flags, const Subject& subject, const SearchSettings& settings = {}) {
  Request request(std::nullopt, flags);
  return search(request, subject, settings);
}

Seconds simulated_step(const Search& found, const Candidate& candidate) {
  return simulated(plan_of(found.space, candidate), found.space.layout(candidate).graph).step;
}

TEST(Search, FindsWhatSimulatingEverythingFinds) {
  for_each_subject([](const std::string& engine, const Subject& subject) {
    const Search found = searched(small_of(engine), subject, {.n_ranked = 3});
    std::vector<std::pair<double, std::size_t>> all;
    for (std::size_t i = 0; i < found.outcomes.size(); ++i)
      if (found.outcomes[i].fits)
        all.emplace_back(simulated_step(found, found.space.candidates[i]).value, i);
    std::ranges::sort(all);
    ASSERT_GE(all.size(), 3u) << engine;
    for (std::size_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(found.ranked[rank], all[rank].second) << engine << " rank " << rank;
  });
}

TEST(Search, NoStepIsShorterThanItsBound) {
  for_each_subject([](const std::string& engine, const Subject& subject) {
    const Search found = searched(small_of(engine), subject);
    for (std::size_t i = 0; i < found.outcomes.size(); ++i)
      EXPECT_LE(found.outcomes[i].bound.value,
                simulated_step(found, found.space.candidates[i]).value)
          << strategy_text(found.space.candidates[i].strategy);
  });
}

TEST(Search, MemoryAndTimeAreThoseOfAnEstimate) {
  for_each_subject([](const std::string& engine, const Subject& subject) {
    const Search found = searched(small_of(engine), subject);
    for (const std::size_t i : found.ranked) {
      const Estimate answer = estimate(plan_of(found.space, found.space.candidates[i]));
      EXPECT_EQ(answer.timeline.device_memory.peak, found.outcomes[i].peak);
      EXPECT_EQ(answer.device.p50(), found.outcomes[i].in_use);
      EXPECT_EQ(answer.fits(), found.outcomes[i].fits);
      EXPECT_EQ(answer.account.step, found.outcomes[i].account->step);
    }
  });
}

TEST(Search, MoreMemoryNeverLowersTheBestThroughput) {
  for_each_subject([](const std::string& engine, Subject subject) {
    const Flags flags = small_of(engine);
    const Search whole = searched(flags, subject);
    std::vector<std::int64_t> needed;
    for (const Outcome& outcome : whole.outcomes) needed.push_back(outcome.in_use.value);
    std::ranges::sort(needed);
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t part = 0; part < 5; ++part) {
      subject.profile.memory.value = Bytes(needed[part * (needed.size() - 1) / 4]);
      const Search found = searched(flags, subject);
      ASSERT_TRUE(found.winner().has_value()) << engine;
      const double step = found.outcomes[*found.winner()].account->step.value;
      EXPECT_LE(step, best) << engine << " with " << subject.profile.memory.value.value << " bytes";
      best = step;
    }
  });
}

TEST(Search, DoesNotDependOnThreads) {
  for_each_subject([](const std::string& engine, const Subject& subject) {
    const Flags flags = small_of(engine);
    const std::string one = search_json(searched(flags, subject, {.n_threads = 1})).dump();
    for (const std::size_t n : {2, 5})
      EXPECT_EQ(search_json(searched(flags, subject, {.n_threads = n})).dump(), one) << engine;
  });
}

TEST(Search, EveryLoserHasAReason) {
  std::mt19937 random(1);
  Subject subject = drawn_subject(random, families().front());
  Search found = searched(with(small, {{"engine", "xtuner_v1"}}), subject, {.n_ranked = 2});
  ASSERT_FALSE(found.space.refused.empty());
  for (const Refused& refused : found.space.refused)
    EXPECT_THAT(refused.reasons, testing::Each(testing::Not("")));
  for (const Refused& refused : found.space.refused) EXPECT_FALSE(refused.reasons.empty());
  for (std::size_t i = 0; i < found.outcomes.size(); ++i) {
    const Outcome& outcome = found.outcomes[i];
    const bool is_ranked = std::ranges::count(found.ranked, i) > 0;
    const bool is_slower = outcome.fits && !is_ranked;
    EXPECT_EQ(found.verdicts[i] == Verdict::ranked, is_ranked);
    EXPECT_EQ(found.verdicts[i] == Verdict::slower, is_slower && outcome.account.has_value());
    EXPECT_EQ(found.verdicts[i] == Verdict::slower_by_bound, is_slower && !outcome.account);
  }
}

TEST(Search, CandidatesHaveEquallyManyTokensAndDiffer) {
  for_each_subject([](const std::string& engine, const Subject& subject) {
    const Search found = searched(small_of(engine), subject, {.tokens_per_step = 8192});
    const std::vector<Candidate>& all = found.space.candidates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].strategy.tokens_per_step(), 8192);
      for (std::size_t j = 0; j < i; ++j) ASSERT_NE(all[i].strategy, all[j].strategy) << engine;
    }
  });
}

TEST(Search, EveryCombinationIsACandidateRefusedOrTheSameAsOne) {
  std::mt19937 random(3);
  const Search found =
      searched(with(small, {{"engine", "xtuner_v1"}}), drawn_subject(random, families().back()));
  std::int64_t combinations = 1, refused = 0;
  for (const Knob& knob : found.space.knobs)
    combinations *= static_cast<std::int64_t>(knob.values.size());
  for (const Refused& of : found.space.refused) refused += of.n;
  EXPECT_LE(refused + static_cast<std::int64_t>(found.space.candidates.size()), combinations);
}

Search of_tiny(const Flags& more, const SearchSettings& settings = {}) {
  Request request(std::nullopt, with({{"model", "tiny_moe"},
                                      {"machine", "h800_sxm"},
                                      {"devices", "8"},
                                      {"engine", "xtuner_v1"},
                                      {"pack_length", "1024"},
                                      {"loss_chunk", "256"}},
                                     more));
  Subject subject = subject_of(request, Catalogue{XT_DATA_ROOT});
  return search(request, std::move(subject), settings);
}

TEST(Search, WhatIsGivenIsFixed) {
  const Search found = of_tiny({{"expert_parallel", "4"}, {"recompute", "2"}, {"swap", "1"}});
  for (const Candidate& candidate : found.space.candidates) {
    EXPECT_EQ(candidate.strategy.expert_parallel, 4);
    EXPECT_EQ(candidate.strategy.recompute_layers, 2);
    EXPECT_EQ(candidate.strategy.swap_layers, 1);
    EXPECT_EQ(candidate.strategy.loss_chunk, 256);
  }
}

TEST(Search, GivenAutomaticSwapIsTheFewestLayersThatFitOfEachCandidate) {
  const Search found = of_tiny({{"swap", "auto"}});
  for (const Candidate& candidate : found.space.candidates)
    EXPECT_EQ(candidate.strategy.swap_layers, 0);  // all fit
}

TEST(Search, TheRunFileOfTheWinnerAsksForTheWinner) {
  for (const Flags& more : {Flags{}, Flags{{"swap", "auto"}}, Flags{{"shard_ranks", "4"}},
                            Flags{{"engine", "megatron"}, {"loss_chunk", "none"}}}) {
    const Search found = of_tiny(more, {.tokens_per_step = 16384});
    ASSERT_TRUE(found.winner().has_value());
    for (const std::size_t i : found.ranked) {
      const Candidate& candidate = found.space.candidates[i];
      const auto path = std::filesystem::temp_directory_path() / "xt_search_test_run.yaml";
      write_file(path, to_yaml(write(run_file_of(found.space, candidate))), Overwrite::allow);
      Request request(path, {});
      EXPECT_EQ(resolve(request, Catalogue{XT_DATA_ROOT}).strategy, candidate.strategy);
      std::filesystem::remove(path);
    }
  }
}

TEST(Search, AnAlternativeHasTheOtherValueAndIsSimulatedIfItFits) {
  const Search found = of_tiny({});
  ASSERT_FALSE(found.alternatives.empty());
  for (const Alternative& of : found.alternatives) {
    if (!of.nearest) continue;
    EXPECT_TRUE(of.refused.empty());
    EXPECT_EQ(found.space.candidates[*of.nearest].values[of.knob], of.value);
    EXPECT_EQ(found.outcomes[*of.nearest].account.has_value(), found.outcomes[*of.nearest].fits);
  }
}

TEST(Search, WhereNothingFitsTheNearestMissIsNamed) {
  Request request(std::nullopt, {{"model", "qwen3_32b"}, {"machine", "h800_sxm"}});
  Subject subject = subject_of(request, Catalogue{XT_DATA_ROOT});
  const Search found = search(request, std::move(subject), {});
  EXPECT_FALSE(found.winner().has_value());
  ASSERT_TRUE(nearest_miss(found).has_value());
  EXPECT_THAT(search_text(found, Style{}),
              testing::ContainsRegex("nothing fits: the nearest misses by ~[0-9.]+ GiB: "));
}

std::string problems_of(const Flags& more, const SearchSettings& settings = {}) {
  try {
    of_tiny(more, settings);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Search, ProblemsOfWhatIsGivenAreThoseOfAPlan) {
  EXPECT_THAT(problems_of({{"expert_parallel", "3"}, {"sequence_parallel", "5"}}),
              testing::AllOf(testing::HasSubstr("--expert-parallel: error: 8 experts"),
                             testing::HasSubstr("--sequence-parallel: error: 8 ranks are not")));
  EXPECT_THAT(problems_of({{"engine", "xtuner"}}), testing::HasSubstr("--engine: error: unknown"));
  EXPECT_THAT(problems_of({}, {.tokens_per_step = 1000}),
              testing::HasSubstr("--tokens-per-step: error: 1000 tokens are not whole packs"));
}

TEST(Search, StepsThatNoLayoutMakesAreRefusedAsAWhole) {
  EXPECT_THAT(problems_of({{"sequence_parallel", "1"}, {"intra_layer_micro_batches", "2"}},
                          {.tokens_per_step = 1024}),
              testing::HasSubstr("steps of 1024 tokens do not divide into micro-steps of 16384"));
}

TEST(Search, TimeIsOfTheAttentionThatIsAskedFor) {
  for (const char* kernel : {"flash2", "flash3"}) {
    const Search found = of_tiny({{"pack_length", "16384"},
                                  {"loss_chunk", "1024"},
                                  {"expert_parallel", "1"},
                                  {"machine", "h100_sxm"},
                                  {"attention_kernel", kernel}});
    const std::size_t best = *found.winner();
    const Estimate answer = estimate(plan_of(found.space, found.space.candidates[best]));
    EXPECT_EQ(found.outcomes[best].account->step, answer.account.step) << kernel;
  }
}

TEST(Search, AStrategyNamesEachWayOfSplitting) {
  Strategy split;
  split.tensor_parallel = 2;
  split.zero = 1;
  EXPECT_THAT(strategy_text(split), testing::HasSubstr(", tensor_parallel 2, zero 1"));
  EXPECT_EQ(strategy_text(Strategy{}).find("zero"), std::string::npos);
}

TEST(Search, BelowStage3NoLayerIsGatheredTwice) {
  const Search found = of_tiny({{"engine", "megatron"}, {"loss_chunk", "none"}});
  for (const Candidate& candidate : found.space.candidates)
    EXPECT_TRUE(candidate.strategy.reshards_layers);
}

Search of_tiny_dense() {
  Request request(std::nullopt, {{"model", "tiny_dense"},
                                 {"machine", "h800_sxm"},
                                 {"devices", "2"},
                                 {"engine", "torchtitan"},
                                 {"pack_length", "512"}});
  Subject subject = subject_of(request, Catalogue{XT_DATA_ROOT});
  return search(request, std::move(subject), {});
}

// Chunks of 1024 tokens are all 512 of a rank; a pack that is split over more ranks than there are
// is refused.
TEST(Search, AValueThatComesToTheSameIsNotRefused) {
  const Search found = of_tiny_dense();
  const auto is_refused = [&](std::string_view name, std::string_view value) {
    const auto of = std::ranges::find_if(found.alternatives, [&](const Alternative& other) {
      const Knob& knob = found.space.knobs[other.knob];
      return knob.name == name && knob.values[other.value].text == value;
    });
    return of != found.alternatives.end() && !of->refused.empty();
  };
  EXPECT_FALSE(is_refused("loss_chunk", "1024"));
  EXPECT_TRUE(is_refused("context_parallel", "4"));
}

TEST(Search, MoreRanksOfAPackThanThereAreIsTheReason) {
  const Search found = of_tiny_dense();
  std::size_t n = 0;
  for (const Refused& of : found.space.refused)
    for (const std::string& reason : of.reasons) {
      EXPECT_EQ(reason.find("micro-steps of 0"), std::string::npos);
      n += reason == "2 ranks are not divisible by 8" ? 1u : 0u;
    }
  EXPECT_GT(n, 0u);
}

TEST(Search, SaysThatTheWinnerIsAtRisk) {
  Request request(std::nullopt, {{"model", "llama3_1_8b"},
                                 {"machine", "h100_sxm"},
                                 {"devices", "16"},
                                 {"engine", "torchtitan"},
                                 {"pack_length", "8192"},
                                 {"context_parallel", "1"},
                                 {"tensor_parallel", "1"},
                                 {"recompute", "none"},
                                 {"reshard_after_forward", "false"},
                                 {"loss_chunk", "8192"}});
  Subject subject = subject_of(request, Catalogue{XT_DATA_ROOT});
  const Search found = search(request, std::move(subject), {});
  EXPECT_THAT(search_text(found, Style{}),
              testing::ContainsRegex("at risk: one run in twenty takes ~[0-9.]+ GiB of 79.18 GiB"));
}

TEST(Search, StagesOfAPipelineHaveTheMemoryOfTheEstimateAndAreNoFasterThanTheirBound) {
  std::size_t n_pipelines = 0;
  std::mt19937 random(20261201);
  for (const Family& family : families()) {
    SearchSettings settings;
    settings.n_ranked = 1'000'000;
    settings.tokens_per_step = 8192;
    const Flags few = with(small, {{"engine", "megatron"},
                                   {"loss_chunk", "none"},
                                   {"context_parallel", "1"},
                                   {"recompute_ops", "all"},
                                   {"expert_parallel", "1"},
                                   {"dispatch", "all_to_all"}});
    const Search found = searched(few, drawn_subject(random, family), settings);
    for (const std::size_t i : found.ranked) {
      const Candidate& candidate = found.space.candidates[i];
      if (candidate.strategy.pipeline_parallel == 1) continue;
      ++n_pipelines;
      const Outcome& outcome = found.outcomes[i];
      const Estimate answer = estimate(plan_of(found.space, candidate));
      EXPECT_EQ(outcome.peak, answer.device.allocated) << strategy_text(candidate.strategy);
      EXPECT_EQ(outcome.in_use, answer.device.p50()) << strategy_text(candidate.strategy);
      EXPECT_LE(outcome.bound.value, answer.account.step.value * (1 + 1e-12))
          << strategy_text(candidate.strategy);
      EXPECT_GT(outcome.bound.value, 0.2 * answer.account.step.value)
          << strategy_text(candidate.strategy);
    }
  }
  EXPECT_GT(n_pipelines, 100u);
}

TEST(Search, JsonSaysIntoHowManyStagesAndChunksACandidateIsCut) {
  Request request(std::nullopt, {{"model", "qwen3_8b"},
                                 {"machine", "h100_sxm"},
                                 {"devices", "8"},
                                 {"engine", "megatron"},
                                 {"pipeline_parallel", "2"},
                                 {"virtual_stages", "2"},
                                 {"tensor_parallel", "2"},
                                 {"recompute", "all"}});
  Subject subject = subject_of(request, Catalogue{XT_DATA_ROOT});
  const std::string json = search_json(search(request, std::move(subject), {})).dump();
  EXPECT_NE(json.find("\"pipeline_parallel\":2,\"virtual_stages\":2"), std::string::npos);
}

}  // namespace
}  // namespace xt
