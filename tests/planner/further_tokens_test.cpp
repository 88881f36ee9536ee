// Layers that predict further tokens: what they add to parameters, flops and traffic, and who has
// none.

#include <gmock/gmock.h>

#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/ir/verify.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Plan plan_with(const Flags& more) {
  return test::plan_of(test::with({{"model", "deepseek_v3"},
                                   {"machine", "h800_sxm"},
                                   {"devices", "512"},
                                   {"engine", "xtuner_v1"},
                                   {"expert_parallel", "8"},
                                   {"pack_length", "4096"},
                                   {"loss_chunk", "1024"}},
                                  more));
}

Plan plan_of_tokens(int n, const Flags& more = {}) {
  return plan_with(test::with({{"further_tokens", std::to_string(n)}}, more));
}

Schedule schedule_of(const Plan& plan) { return lower(graph_of(plan), plan.strategy); }

std::int64_t parameters(const Plan& plan) {
  return count_parameters(graph_of(plan), plan.strategy.expert_parallel);
}

// A sparse layer of 11.507e9, the product of two widths and three norms.
TEST(FurtherTokens, OfDeepSeekV3HasALayerOf11Point6BillionParameters) {
  const Architecture m = plan_with({}).architecture;
  const std::int64_t E = m.hidden_size;
  EXPECT_NEAR(static_cast<double>(parameters(plan_of_tokens(1)) - parameters(plan_with({}))),
              11.61e9, 0.005e9);
  Plan deeper = plan_with({});
  ++deeper.architecture.num_hidden_layers;
  EXPECT_EQ(parameters(plan_of_tokens(1)) - parameters(deeper), 2 * E * E + 3 * E);
}

// Source: DeepSeek-V3 technical report, section 2.2: a product of two widths, a layer, lm_head
TEST(FurtherTokens, CountTheFlopsOfALayerAProductAndLmHead) {
  Plan deeper = plan_with({});
  ++deeper.architecture.num_hidden_layers;
  const double E = 7168, V = 129280;
  const double more =
      estimate(plan_of_tokens(1)).model_flops.value - estimate(deeper).model_flops.value;
  EXPECT_NEAR(more / (4096 * 6 * (2 * E * E + V * E)), 1, 1e-9);
}

std::int64_t count(const Schedule& schedule, std::string_view part, Kernel kernel) {
  return std::ranges::count_if(schedule.ops, [&](const Op& op) {
    return schedule.work(op).kernel == kernel && schedule.parts[op.origin.part] == part;
  });
}

TEST(FurtherTokens, HaveALossEachThroughTheSameHead) {
  for (const int n : {0, 1, 2}) {
    const Schedule schedule = schedule_of(plan_of_tokens(n));
    EXPECT_EQ(count(schedule, "lm_head", Kernel::cross_entropy), 4 * (n + 1)) << n;
    EXPECT_EQ(count(schedule, "embed", Kernel::embedding), n + 1) << n;
    EXPECT_EQ(count(schedule, "embed", Kernel::embedding_backward), n + 1) << n;
    EXPECT_EQ(count(schedule, "embed", Kernel::fill_zero), 1) << n;
  }
}

// Source: FSDP2 gathers a unit whenever its forward pass runs, and reduces its gradient once
TEST(FurtherTokens, GatherTheEmbeddingOnceMoreAndReduceItOnce) {
  const auto runs = [](const Plan& plan, Kernel kernel) {
    const Schedule schedule = schedule_of(plan);
    const std::int64_t elements = schedule.flats.front().elements;
    return std::ranges::count_if(schedule.ops, [&](const Op& op) {
      const Work& work = schedule.work(op);
      return work.kernel == kernel && op.origin.layer < 0 && work.extents[0] == elements;
    });
  };
  // The head has as many elements, and a norm's more.
  EXPECT_EQ(runs(plan_of_tokens(1), Kernel::all_gather),
            runs(plan_with({}), Kernel::all_gather) + 1);
  EXPECT_EQ(runs(plan_of_tokens(1), Kernel::reduce_scatter),
            runs(plan_with({}), Kernel::reduce_scatter));
}

TEST(FurtherTokens, RunInLockStepAndUnderMegatronToo) {
  const auto step = [](const Flags& more, int n) {
    return estimate(plan_of_tokens(n, more)).account.step;
  };
  const Flags lock_step = {{"intra_layer_micro_batches", "2"}};
  const Flags megatron = {
      {"engine", "megatron"}, {"loss_chunk", "none"}, {"gradient_accumulation", "2"}};
  for (const Flags& more : {lock_step, megatron}) EXPECT_GT(step(more, 1), step(more, 0));
}

std::vector<std::string> problems_of(const Flags& more) {
  try {
    plan_of_tokens(1, more);
  } catch (const InputError& error) {
    std::vector<std::string> messages;
    for (const Diagnostic& problem : error.problems()) messages.push_back(problem.message);
    return messages;
  }
  return {};
}

// Layers of OLMo 3 read their input behind no norm: where products in fp8 keep copies of it, what
// is only run again because the engine runs all of an ffn again needs the product that made it.
TEST(FurtherTokens, OfNormsBehindRunAgainWithAllThatTheirFfnReads) {
  const Plan plan = test::plan_of({{"model", "olmo3_7b"},
                                   {"machine", "h100_sxm"},
                                   {"devices", "8"},
                                   {"engine", "megatron"},
                                   {"pack_length", "4096"},
                                   {"further_tokens", "1"},
                                   {"recompute_ops", "ffn"},
                                   {"fp8_products", "true"},
                                   {"fp8_recipe", "delayed"}});
  EXPECT_TRUE(verify(schedule_of(plan)).empty());
}

TEST(FurtherTokens, AreRefusedWhereTheyAreNotModelled) {
  using testing::ElementsAre, testing::HasSubstr, testing::Contains;
  EXPECT_THAT(problems_of({{"engine", "torchtitan"}}),
              Contains("torchtitan predicts one token, deepseek_v3 has 1 more"));
  EXPECT_THAT(problems_of({{"engine", "megatron"}, {"pipeline_parallel", "2"}}),
              Contains("not supported: further tokens in a pipeline"));
  EXPECT_THAT(problems_of({{"model", "qwen3_0_6b"}, {"expert_parallel", "1"}}),
              ElementsAre(HasSubstr("where lm_head is the embedding")));
}

}  // namespace
}  // namespace xt
