#include "planner/estimate/price_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;
using test::with;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const Flags dense = {{"model", "qwen3_8b"},    {"machine", "h800_sxm"}, {"devices", "8"},
                     {"engine", "torchtitan"}, {"pack_length", "8192"}, {"recompute", "none"}};
const Flags moe = {{"model", "qwen3_30b_a3b"},
                   {"machine", "h800_sxm"},
                   {"devices", "64"},
                   {"engine", "xtuner_v1"},
                   {"pack_length", "32768"}};

const Flags staged = {{"model", "qwen3_8b"},   {"machine", "h100_sxm"},
                      {"devices", "8"},        {"engine", "megatron"},
                      {"pack_length", "4096"}, {"pipeline_parallel", "4"},
                      {"recompute", "all"},    {"gradient_accumulation", "16"}};

struct Priced {
  Plan plan;
  Estimate answer;
  PriceList list;

  explicit Priced(const Flags& flags) {
    Request request({}, flags);
    plan = resolve(request, Catalogue{XT_DATA_ROOT});
    answer = estimate(plan);
    list = price_list(request, plan, answer);
  }

  std::set<std::string> changes() const {
    std::set<std::string> all;
    for (const Price& price : list.prices) all.insert(flags_text(price.change));
    return all;
  }
};

Bytes sum_of(const std::vector<Holders>& alive) {
  Bytes sum;
  for (const Holders& of : alive) sum += of.bytes;
  return sum;
}

TEST(AliveAtThePeak, AddsUpToThePeakExactlyAndInEveryCategory) {
  for (const Flags& flags : {dense, moe, with(moe, {{"expert_parallel", "8"}}), staged,
                             with(staged, {{"virtual_stages", "3"}, {"recompute", "none"}})}) {
    const Priced priced(flags);
    EXPECT_EQ(sum_of(priced.list.alive), priced.answer.device.allocated);
    CategoryBytes by_category{};
    for (const Holders& of : priced.list.alive)
      by_category[static_cast<std::size_t>(of.category)] += of.bytes;
    EXPECT_EQ(by_category, priced.answer.timeline.device_memory.by_category);
    EXPECT_TRUE(std::ranges::is_sorted(priced.list.alive, std::ranges::greater(), &Holders::bytes));
  }
}

// The peak of this plan lies in the backward pass of its last recomputed layer, 46 of 48.
TEST(AliveAtThePeak, NamesTheInputsOfAllRecomputedLayers) {
  const Priced priced(moe);
  const auto is_input = [](const Holders& of) {
    return of.category == MemoryCategory::saved_activations && of.n_buffers > 40;
  };
  const auto inputs = std::ranges::find_if(priced.list.alive, is_input);
  ASSERT_NE(inputs, priced.list.alive.end());
  EXPECT_EQ(layer_ranges(inputs->layers), "0-45");
  EXPECT_EQ(holder_name(priced.answer.schedule, *inputs), "made by forward combine unpermute");
  // 46 inputs of 32768 tokens, each 2048 wide, in bf16
  EXPECT_EQ(inputs->bytes, Bytes(std::int64_t{46} * 32768 * 2048 * 2));
}

// The first of four stages has four micro-batches in flight, in nine layers each; their products
// of gate and up are 2 · 12288 wide, in bf16.
TEST(AliveAtThePeak, CountsEveryMicroBatchThatAStageHolds) {
  const Priced priced(with(staged, {{"recompute", "none"}}));
  EXPECT_EQ(priced.answer.pipeline->fullest, 0U);
  const auto is_product = [&](const Holders& of) {
    return holder_name(priced.answer.schedule, of) == "made by forward gate_up_proj matmul";
  };
  const auto products = std::ranges::find_if(priced.list.alive, is_product);
  ASSERT_NE(products, priced.list.alive.end());
  EXPECT_EQ(layer_ranges(products->layers), "0-8");
  EXPECT_EQ(products->n_buffers, 4 * 9);
  EXPECT_EQ(products->bytes, Bytes(std::int64_t{4} * 9 * 4096 * 2 * 12288 * 2));
}

TEST(PriceList, OfAPipelineHasMoreStagesAndOffload) {
  EXPECT_THAT(Priced(staged).changes(),
              Contains("--pipeline-parallel 8 --gradient-accumulation 32"));
  const Flags halves = {{"engine", "torchtitan"}, {"virtual_stages", "2"},
                        {"recompute", "none"},    {"compile", "false"},
                        {"machine", "h200_sxm"},  {"pipeline_schedule", "zero_bubble"}};
  EXPECT_THAT(Priced(with(staged, halves)).changes(), Contains("--pipeline-schedule 1f1b"));
  const std::set<std::string> kept = Priced(with(staged, {{"recompute", "none"}})).changes();
  EXPECT_THAT(kept, Contains("--recompute all"));
  EXPECT_THAT(kept, Contains("--offload-share 0.5"));
}

TEST(AliveAtThePeak, PutsMomentsOfAllLayersTogether) {
  const Priced priced(with(dense, {{"recompute", "all"}}));
  const auto is_optimizer = [](const Holders& of) {
    return of.category == MemoryCategory::optimizer && !of.layers.empty();
  };
  ASSERT_EQ(std::ranges::count_if(priced.list.alive, is_optimizer), 1);
  const auto moments = std::ranges::find_if(priced.list.alive, is_optimizer);
  EXPECT_EQ(layer_ranges(moments->layers), "0-35");
  EXPECT_EQ(moments->n_buffers, 72);
}

TEST(LayerRanges, AreShort) {
  EXPECT_EQ(layer_ranges({}), "");
  EXPECT_EQ(layer_ranges({3}), "3");
  EXPECT_EQ(layer_ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

TEST(PriceList, IsWhatEstimateSaysOfTheChangedRun) {
  const Priced priced(dense);
  ASSERT_FALSE(priced.list.prices.empty());
  for (const Price& price : priced.list.prices) {
    Flags flags = with(dense, {{"loss_chunk", std::to_string(priced.plan.strategy.loss_chunk)}});
    const Plan plan = test::plan_of(with(flags, price.change));
    const Estimate answer = estimate(plan);
    EXPECT_EQ(answer.device.allocated, price.device.allocated) << flags_text(price.change);
    EXPECT_EQ(priced.answer.device.allocated - price.saved, price.device.allocated);
    EXPECT_EQ(answer.fit(), price.fit);
    const double ratio =
        tokens_per_device_s(priced.plan, priced.answer) / tokens_per_device_s(plan, answer);
    EXPECT_NEAR((priced.answer.account.step + price.added).value,
                priced.answer.account.step.value * ratio, 1e-9);
  }
}

TEST(PriceList, HasOnlyWhatSavesCheapestFirst) {
  for (const Flags& flags : {dense, moe}) {
    const Priced priced(flags);
    for (const Price& price : priced.list.prices) EXPECT_GT(price.saved.value, 0);
    EXPECT_TRUE(std::ranges::is_sorted(priced.list.prices, {}, &Price::seconds_per_gib));
  }
}

TEST(PriceList, OfXtunerSwapsAndSharesPacksByHeads) {
  const std::set<std::string> changes = Priced(moe).changes();
  EXPECT_THAT(changes, Contains("--swap all"));
  EXPECT_THAT(changes, Contains("--swap-optimizer true"));
  EXPECT_THAT(changes, Contains("--devices 128"));
  EXPECT_THAT(changes, Contains("--sequence-parallel 2 --gradient-accumulation 2"));
  EXPECT_THAT(changes, Not(Contains(HasSubstr("context-parallel"))));  // xtuner_v1 has none
  EXPECT_THAT(changes, Not(Contains("--recompute all")));              // as it is
}

// What its all-to-all keeps for itself is more than what spreading experts over four ranks saves,
// where as many channels connect ranks as on H100.
TEST(PriceList, LeavesOutWhatCommunicatorsTakeBack) {
  const Flags connected = with(moe, {{"machine", "h100_sxm"}});
  const Estimate spread = estimate(test::plan_of(with(connected, {{"expert_parallel", "4"}})));
  const Priced priced(connected);
  ASSERT_LT(spread.device.allocated, priced.answer.device.allocated);
  ASSERT_GT(spread.device.p50(), priced.answer.device.p50());
  EXPECT_THAT(priced.changes(), Not(Contains(HasSubstr("expert-parallel 4"))));
  const Priced larger(with(moe, {{"model", "qwen3_235b_a22b"},
                                 {"devices", "256"},
                                 {"pack_length", "65536"},
                                 {"sample_length", "4096"},
                                 {"loss_chunk", "1024"},
                                 {"swap", "all"}}));
  EXPECT_THAT(larger.changes(), Contains("--expert-parallel 4"));
}

TEST(PriceList, OfTorchtitanRecomputesByOpAndSharesPacksByTokens) {
  const std::set<std::string> changes = Priced(dense).changes();
  EXPECT_THAT(changes, Contains("--recompute all"));
  EXPECT_THAT(changes, Contains("--recompute-ops products --recompute all"));
  EXPECT_THAT(changes, Contains("--context-parallel 2 --gradient-accumulation 2"));
  EXPECT_THAT(changes, Contains("--pack-length 4096 --sample-length 4096 "
                                "--gradient-accumulation 2"));
  EXPECT_THAT(changes, Contains("--recompute all --swap all"));
}

// Its loss is whole, which is no reason to refuse every change.
TEST(PriceList, OfMegatronSplitsProductsAndStates) {
  const Flags megatron = with(dense, {{"engine", "megatron"}, {"zero", "0"}});
  const std::set<std::string> changes = Priced(megatron).changes();
  EXPECT_THAT(changes, Contains("--tensor-parallel 2 --gradient-accumulation 2"));
  EXPECT_THAT(changes, Contains("--tensor-parallel 4 --gradient-accumulation 4"));
  EXPECT_THAT(changes, Not(Contains(HasSubstr("--tensor-parallel 8"))));  // 4 are enough
  EXPECT_THAT(changes, Contains("--zero 1"));
  EXPECT_THAT(Priced(with(megatron, {{"zero", "1"}})).changes(), Not(Contains("--zero 2")));
}

TEST(PriceList, DoesNotCutSamplesThatTheUserGave) {
  const Priced priced(with(dense, {{"sample_length", "8192"}}));
  EXPECT_THAT(priced.changes(), Not(Contains(HasSubstr("pack-length"))));
}

TEST(PriceList, LeavesTheChunkAsItWasChosen) {
  // only the change itself differs from the plan, though a chunk chosen anew would differ too
  const Priced priced(with(moe, {{"loss_chunk", "auto"}}));
  const Price* swap = nullptr;
  for (const Price& price : priced.list.prices)
    if (flags_text(price.change) == "--swap all") swap = &price;
  ASSERT_NE(swap, nullptr);
  Plan plan = priced.plan;
  plan.strategy.swap_layers = plan.strategy.recompute_layers;
  EXPECT_EQ(estimate(plan).device.allocated, swap->device.allocated);
}

TEST(WaysToFit, AreNoneWhereThePlanFits) { EXPECT_TRUE(Priced(moe).list.ways_to_fit.empty()); }

TEST(WaysToFit, AreTheThreeFastestAndFit) {
  const Priced priced({{"model", "qwen3_32b"},
                       {"machine", "h800_sxm"},
                       {"devices", "16"},
                       {"engine", "torchtitan"},
                       {"pack_length", "16384"},
                       {"recompute", "none"}});
  ASSERT_FALSE(priced.answer.fits());
  const std::vector<Price>& ways = priced.list.ways_to_fit;
  ASSERT_FALSE(ways.empty());
  EXPECT_LE(ways.size(), 3U);
  for (const Price& way : ways) EXPECT_NE(way.fit, Fit::does_not_fit) << flags_text(way.change);
  EXPECT_TRUE(std::ranges::is_sorted(ways, {}, &Price::added));
  EXPECT_THAT(ways_to_fit_text(priced.list), HasSubstr(flags_text(ways.front().change)));
}

TEST(WaysToFit, ChangeNothingThatIsSoAlready) {
  const Priced priced(with(moe, {{"model", "qwen3_235b_a22b"},
                                 {"devices", "256"},
                                 {"pack_length", "65536"},
                                 {"sample_length", "4096"},
                                 {"loss_chunk", "1024"},
                                 {"swap", "30"}}));
  ASSERT_FALSE(priced.answer.fits());
  for (const Price& way : priced.list.ways_to_fit)
    EXPECT_THAT(flags_text(way.change), Not(HasSubstr("recompute")));
}

TEST(WaysToFit, UseTheFewestDevicesThatFit) {
  const Priced priced({{"model", "qwen3_32b"}, {"machine", "h800_sxm"}, {"engine", "xtuner_v1"}});
  ASSERT_EQ(priced.list.ways_to_fit.size(), 1U);
  const Change& change = priced.list.ways_to_fit.front().change;
  ASSERT_EQ(change.front().first, "devices");
  const std::int64_t half = std::stoll(change.front().second) / 2;
  Flags fewer = {{"model", "qwen3_32b"}, {"machine", "h800_sxm"}, {"engine", "xtuner_v1"}};
  fewer = with(fewer, {{"devices", std::to_string(half)}});
  EXPECT_FALSE(estimate(test::plan_of(fewer)).fits());
}

TEST(PriceListJson, HoldsWhoIsAliveAndEveryPrice) {
  const Priced priced(moe);
  Json json = estimate_json(priced.plan, priced.answer);
  add_price_list(json, priced.answer, priced.list);
  std::int64_t bytes = 0;
  for (const Json& of : json.at("alive_at_peak").items()) bytes += of.at("bytes").as_int();
  EXPECT_EQ(bytes, json.at("peak_memory_bytes").as_int());
  EXPECT_EQ(json.at("prices").items().size(), priced.list.prices.size());
  for (const Json& price : json.at("prices").items())
    EXPECT_EQ(price.at("allocated_bytes").as_int() + price.at("saved_bytes").as_int(),
              json.at("peak_memory_bytes").as_int());
}

TEST(PriceListText, ShowsAPartOfAHundredthAndTheSumOfTheOthers) {
  const Priced priced(moe);
  const std::string text = price_list_text(priced.answer, priced.list);
  EXPECT_THAT(text, HasSubstr("all others"));
  EXPECT_THAT(text, HasSubstr("--swap all"));
}

}  // namespace
}  // namespace xt
