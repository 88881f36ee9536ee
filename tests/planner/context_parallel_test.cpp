// Packs that ranks share by tokens: what is exchanged, computed and kept, and what a ring hides.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "costmodel/sim/simulate.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// Qwen3-8B, whose 8 key heads torchtitan repeats for its 32 query heads before it shares them.
constexpr std::int64_t layers = 36, K = 32, D = 128, pack = 32768;

Plan plan_with(const Flags& more) {
  const Flags flags = {{"model", "qwen3_8b"},    {"machine", "h800_sxm"}, {"devices", "8"},
                       {"engine", "torchtitan"}, {"recompute", "none"},   {"loss_chunk", "1024"},
                       {"pack_length", "32768"}};
  return test::plan_of(test::with(flags, more));
}

Flags shared_by(std::int64_t cp, const std::string& exchange) {
  return {{"context_parallel", std::to_string(cp)}, {"context_exchange", exchange}};
}

Estimate estimate_of(std::int64_t cp, const std::string& exchange, const Flags& more = {}) {
  return estimate(plan_with(test::with(shared_by(cp, exchange), more)));
}

// Bytes that a rank sends to others of its group in the exchanges of keys and values of a phase.
double exchanged(const Estimate& answer, Phase phase) {
  const Schedule& schedule = answer.schedule;
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.group != Group::context || op.origin.phase != phase) continue;
    const double n = schedule.group(work.group).size;
    const double sent = work.kernel == Kernel::send_receive ? 1 : (n - 1) / n;
    bytes += static_cast<double>(work.extents[0].code * width(work.dtype)) * sent;
  }
  return bytes;
}

// Source: Llama Team 2024, arXiv 2407.21783, section 3.3.2: keys and values gathered in the forward
// and again in the backward pass, their gradients reduced over the ranks
TEST(ContextParallel, GathersKeysAndValuesInBothPassesAndReducesTheirGradients) {
  for (const std::int64_t cp : {2, 4, 8}) {
    const Estimate answer = estimate_of(cp, "all_gather");
    const double others = static_cast<double>(cp - 1) / static_cast<double>(cp);
    const double once = 2.0 * static_cast<double>(layers * 2 * K * D * pack) * others;
    EXPECT_NEAR(exchanged(answer, Phase::forward) / once, 1, 1e-9) << cp;
    EXPECT_NEAR(exchanged(answer, Phase::backward) / (2 * once), 1, 1e-9) << cp;
  }
}

// Source: PyTorch, distributed/tensor/experimental/_attention.py: cp - 1 hops of keys and values in
// either pass, cp of their fp32 gradients
TEST(ContextParallel, ARingPassesKeysAndValuesOnInBothPassesAndTheirGradientsHome) {
  for (const std::int64_t cp : {2, 4, 8}) {
    const Estimate answer = estimate_of(cp, "ring");
    const double pair = static_cast<double>(layers * 2 * K * D * (pack / cp));
    const auto hops = static_cast<double>(cp - 1);
    EXPECT_NEAR(exchanged(answer, Phase::forward) / (2 * pair * hops), 1, 1e-9) << cp;
    EXPECT_NEAR(exchanged(answer, Phase::backward) / (2 * pair * hops + 4 * pair * (hops + 1)), 1,
                1e-9)
        << cp;
  }
}

TEST(ContextParallel, FlopsOfAllRanksDoNotDependOnHowManyShareAPack) {
  const Estimate alone = estimate(plan_with({}));
  for (const std::int64_t cp : {2, 4, 8})
    for (const char* exchange : {"all_gather", "ring"}) {
      const Estimate shared = estimate_of(cp, exchange);
      EXPECT_NEAR(shared.model_flops.value * static_cast<double>(cp) / alone.model_flops.value, 1,
                  1e-12);
      EXPECT_NEAR(
          shared.hardware_flops.value * static_cast<double>(cp) / alone.hardware_flops.value, 1,
          1e-12);
    }
}

// Two samples of 12288 tokens leave a quarter of a pack empty. Of the packs drawn the last one is
// not full, and fewer are drawn for fewer groups.
TEST(ContextParallel, FlopsOfAllRanksAddUpWherePacksAreNotFull) {
  const Flags uneven = {{"sample_length", "12288"}};
  const Estimate alone = estimate(plan_with(uneven));
  for (const char* exchange : {"all_gather", "ring"})
    EXPECT_NEAR(estimate_of(4, exchange, uneven).model_flops.value * 4 / alone.model_flops.value, 1,
                2e-3);
}

// Source: Hugging Face accelerate, pull request 4175: 7.5 GB of layer inputs a GPU for Qwen3-0.6B,
// a million tokens around a ring of 8
TEST(ContextParallel, InputsOfAMillionTokensAreAsPublished) {
  const Estimate answer = estimate_of(8, "ring",
                                      {{"model", "qwen3_0_6b"},
                                       {"machine", "h100_sxm"},
                                       {"pack_length", "1048576"},
                                       {"recompute", "all"}});
  const MemoryPeak peak = memory_peak_in(answer.schedule, assumed_bindings(answer.schedule),
                                         Space::device, Phase::backward);
  const Bytes inputs =
      peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)];
  EXPECT_NEAR(static_cast<double>(inputs.value) / 7.5e9, 1, 0.04);
}

TEST(ContextParallel, OneRankToAPackIsNoContextParallelism) {
  EXPECT_EQ(estimate(plan_with({})).schedule,
            estimate(plan_with({{"context_parallel", "1"}})).schedule);
}

TEST(ContextParallel, ARankKeepsItsTokensActivationsAndItsShareOfAllParameters) {
  const auto at_loss = [](const Estimate& answer, MemoryCategory category) {
    return memory_peak_in(answer.schedule, assumed_bindings(answer.schedule), Space::device,
                          Phase::loss)
        .by_category[static_cast<std::size_t>(category)];
  };
  const Estimate alone = estimate(plan_with({}));
  for (const char* exchange : {"all_gather", "ring"}) {
    const Estimate shared = estimate_of(4, exchange);
    EXPECT_EQ(4 * at_loss(shared, MemoryCategory::saved_activations).value,
              at_loss(alone, MemoryCategory::saved_activations).value)
        << exchange;
    EXPECT_EQ(at_loss(shared, MemoryCategory::parameters),
              at_loss(alone, MemoryCategory::parameters));
  }
}

TEST(ContextParallel, AStepHasTheTokensOfTheGroupsThatShareAPack) {
  EXPECT_EQ(plan_with({}).strategy.tokens_per_step(), 8 * pack);
  const Strategy shared = plan_with(shared_by(4, "ring")).strategy;
  EXPECT_EQ(shared.tokens_per_step(), 2 * pack);
  EXPECT_EQ(shared.data_parallel(), 2);
}

// Time of attention by its flops and of exchanges by their bytes; everything else takes none.
Prices prices_of(const Schedule& schedule, double flops_per_s, double bytes_per_s) {
  const Bindings bindings = assumed_bindings(schedule);
  Prices prices;
  for (const Work& work : schedule.works) {
    Demand& demand = prices.demands.emplace_back();
    if (kernel_class(work.kernel) == KernelClass::attention)
      demand.latency = Seconds(hardware_flops(work, bindings).value / flops_per_s);
    if (work.group == Group::context)
      demand.latency =
          Seconds(static_cast<double>(memory_traffic(work, bindings).value) / bytes_per_s);
  }
  return prices;
}

double step_with(const Schedule& schedule, double flops_per_s, double bytes_per_s) {
  return to_seconds(makespan(simulate(schedule, assumed_bindings(schedule),
                                      prices_of(schedule, flops_per_s, bytes_per_s))))
      .value;
}

TEST(ContextParallel, OverInfinitelyFastLinksARingAndAnAllGatherTakeTheSameTime) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t cp : {2, 4, 8}) {
    const Schedule ring = estimate_of(cp, "ring").schedule;
    const Schedule gather = estimate_of(cp, "all_gather").schedule;
    EXPECT_NEAR(step_with(ring, 1e14, infinity) / step_with(gather, 1e14, infinity), 1, 1e-6);
  }
}

// From the first op of attention of each layer in `phase` to that of the layer after it, in
// seconds.
std::vector<double> layer_times(const Schedule& schedule, const Timeline& timeline, Phase phase) {
  std::map<std::int16_t, Instant> starts;
  for (const Event& event : timeline.events) {
    const Op& op = schedule.op(event.op);
    const bool is_attention = kernel_class(schedule.work(op).kernel) == KernelClass::attention;
    if (is_attention && op.origin.phase == phase) starts.emplace(op.origin.layer, event.start);
  }
  std::vector<double> times;
  for (auto it = starts.begin(); std::next(it) != starts.end(); ++it)
    times.push_back(std::abs(to_seconds(std::next(it)->second - it->second).value));
  return times;
}

// An op of attention takes a, in the backward pass 5/2 as long; a hop h, one of gradients, which
// are in fp32, twice that.
//
//   forward (cp − 1)·max(a, h) + a    backward, where 3·h ≤ 5/2·a, cp·5/2·a + 2·h
TEST(ContextParallel, ARingHidesAllHopsBehindAttentionButTheLastOneOfGradients) {
  for (const std::int64_t cp : {2, 4, 8}) {
    const Schedule schedule = estimate_of(cp, "ring").schedule;
    const double flops = 2.0 * 32 * D * static_cast<double>(pack * pack / (cp * cp));
    const double bytes = 2.0 * static_cast<double>(2 * K * D * pack / cp), a = 1e-3;
    for (const double h : {2e-4, 8e-4, 3e-3}) {
      const Timeline timeline =
          simulate(schedule, assumed_bindings(schedule), prices_of(schedule, flops / a, bytes / h));
      const auto hops = static_cast<double>(cp - 1);
      for (const double time : layer_times(schedule, timeline, Phase::forward))
        EXPECT_NEAR(time / (hops * std::max(a, h) + a), 1, 1e-4) << cp << " " << h;
      if (3 * h > 2.5 * a) continue;
      for (const double time : layer_times(schedule, timeline, Phase::backward))
        EXPECT_NEAR(time / (static_cast<double>(cp) * 2.5 * a + 2 * h), 1, 1e-4) << cp << " " << h;
    }
  }
}

TEST(ContextParallel, AnAllGatherHidesNothing) {
  const std::int64_t cp = 4;
  const Schedule schedule = estimate_of(cp, "all_gather").schedule;
  const double flops = 2.0 * 32 * D * static_cast<double>(pack * pack / cp);
  const double bytes = 2.0 * static_cast<double>(2 * K * D * pack), a = 4e-3, g = 1e-3;
  const Timeline timeline =
      simulate(schedule, assumed_bindings(schedule), prices_of(schedule, flops / a, bytes / g));
  for (const double time : layer_times(schedule, timeline, Phase::forward))
    EXPECT_NEAR(time / (a + g), 1, 1e-4);
  for (const double time : layer_times(schedule, timeline, Phase::backward))
    EXPECT_NEAR(time / (2.5 * a + 2 * g), 1, 1e-4);
}

}  // namespace
}  // namespace xt
