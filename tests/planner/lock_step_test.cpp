// Packs that go through each layer in lock-step: XTuner V1's order, and what it hides.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "costmodel/ir/account.h"
#include "costmodel/ir/memory.h"
#include "costmodel/ir/verify.h"
#include "costmodel/sim/simulate.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Plan plan_with(const Flags& more) {
  const Flags flags = {{"model", "qwen3_30b_a3b"}, {"machine", "h800_sxm"},
                       {"devices", "16"},          {"engine", "xtuner_v1"},
                       {"pack_length", "16384"},   {"sample_length", "4096"},
                       {"expert_parallel", "8"},   {"loss_chunk", "1024"}};
  return test::plan_of(test::with(flags, more));
}

Plan lock_step(int packs) {
  return plan_with({{"intra_layer_micro_batches", std::to_string(packs)}});
}

// Milliseconds of the parts of a layer, per micro-batch; everything else takes no time.
struct Parts {
  std::int64_t attention, experts, dispatch, combine, output;
};

Prices prices_of(const Schedule& schedule, const Parts& parts) {
  Prices prices;
  for (const Work& work : schedule.works) {
    Demand demand;
    const auto take = [&](std::int64_t ms) {
      demand.latency = Seconds(static_cast<double>(ms) * 1e-3);
    };
    if (work.kernel == Kernel::attention) take(parts.attention);
    if (work.kernel == Kernel::swiglu) take(parts.experts);
    if (work.kernel == Kernel::unpermute) take(parts.output);
    if (work.kernel == Kernel::all_to_all)
      take(work.extents[0].is_symbol() ? parts.combine : parts.dispatch);
    prices.demands.push_back(demand);
  }
  return prices;
}

// Source: XTuner V1 (InternLM/xtuner, b934f4620), order of the MoE layer's events for two
// micro-batches: D0 D1 C0 C1 on one link, A0 A1 E0 E1 O0 O1 on the device
std::int64_t layer_time(const Parts& p) {
  const std::int64_t a = p.attention, e = p.experts, d = p.dispatch, c = p.combine, o = p.output;
  const std::int64_t e0 = std::max(2 * a, a + d);
  const std::int64_t d1_end = e0 + d, e1 = std::max(e0 + e, d1_end), c0 = std::max(e0 + e, d1_end);
  const std::int64_t c1 = std::max(e1 + e, c0 + c), o0 = std::max(e1 + e, c0 + c);
  return std::max(o0 + o, c1 + c) + o;
}

// From the start of one layer's forward pass to that of the next.
std::vector<Duration> forward_periods(const Schedule& schedule, const Timeline& timeline) {
  std::map<std::int16_t, Instant> starts;
  for (const Event& event : timeline.events) {
    const Op& op = schedule.op(event.op);
    if (op.origin.phase != Phase::forward || schedule.work(op).kernel != Kernel::attention)
      continue;
    const Instant start = event.start;
    const auto [at, is_new] = starts.emplace(op.origin.layer, start);
    if (!is_new) at->second = std::min(at->second, start);
  }
  std::vector<Duration> periods;
  for (auto it = starts.begin(); std::next(it) != starts.end(); ++it)
    periods.push_back(std::next(it)->second - it->second);
  return periods;
}

TEST(LockStep, AForwardLayerOfTwoMicroBatchesTakesTheClosedForm) {
  const Schedule schedule = estimate(lock_step(2)).schedule;
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const auto ms = [&] { return static_cast<std::int64_t>(random() % 20) + 1; };
    const Parts parts{ms(), ms(), ms(), ms(), ms()};
    const Timeline timeline =
        simulate(schedule, assumed_bindings(schedule), prices_of(schedule, parts));
    for (const Duration period : forward_periods(schedule, timeline))
      EXPECT_EQ(period.count(), layer_time(parts) * 1'000'000)
          << fmt::format("a {} e {} d {} c {} o {}", parts.attention, parts.experts, parts.dispatch,
                         parts.combine, parts.output);
  }
}

TEST(LockStep, TheLinkCarriesDispatchesAndCombinationsInXtunersOrder) {
  const Schedule schedule = estimate(lock_step(2)).schedule;
  const auto order = [&](Phase phase, std::int16_t layer) {
    std::string text;
    for (const Op& op : schedule.ops)
      if (op.origin.phase == phase && op.origin.layer == layer &&
          schedule.work(op).kernel == Kernel::all_to_all)
        text += fmt::format("{}{} ", schedule.parts[op.origin.part] == "dispatch" ? 'D' : 'C',
                            op.origin.chunk);
    return text;
  };
  EXPECT_EQ(order(Phase::forward, 3), "D0 D1 C0 C1 ");
  EXPECT_EQ(order(Phase::recompute, 3), "D0 D1 C0 C1 ");
  EXPECT_EQ(order(Phase::backward, 3), "C1 C0 D1 D0 ");
}

TEST(LockStep, TakesTheSameTurnsWhenTokensAreSentOncePerRank) {
  const Schedule schedule =
      estimate(plan_with({{"intra_layer_micro_batches", "2"}, {"dispatch", "deep_ep"}})).schedule;
  std::string order;
  for (const Op& op : schedule.ops)
    if (op.origin.phase == Phase::forward && op.origin.layer == 3 &&
        schedule.work(op).kernel == Kernel::all_to_all)
      order += fmt::format("{}{} ", schedule.parts[op.origin.part] == "dispatch" ? 'D' : 'C',
                           op.origin.chunk);
  EXPECT_EQ(order, "D0 D1 C0 C1 ");
  EXPECT_EQ(verify(schedule), std::vector<std::string>{});
}

TEST(LockStep, TakesTheSameTurnsWhenAllTokensAreGathered) {
  const Schedule schedule =
      estimate(plan_with({{"intra_layer_micro_batches", "2"}, {"dispatch", "agrs"}})).schedule;
  const auto order = [&](Phase phase) {
    std::string text;
    for (const Op& op : schedule.ops) {
      const Work& work = schedule.work(op);
      const bool carries =
          work.kernel == Kernel::all_gather || work.kernel == Kernel::reduce_scatter;
      if (op.origin.phase == phase && op.origin.layer == 3 && carries &&
          work.group == Group::expert)
        text += fmt::format("{}{} ", schedule.parts[op.origin.part] == "dispatch" ? 'D' : 'C',
                            op.origin.chunk);
    }
    return text;
  };
  EXPECT_EQ(order(Phase::forward), "D0 D1 C0 C1 ");
  EXPECT_EQ(order(Phase::backward), "C1 C0 D1 D0 ");
  EXPECT_EQ(verify(schedule), std::vector<std::string>{});
}

TEST(LockStep, SchedulesOfAnyNumberOfMicroBatchesObeyTheRules) {
  for (const int packs : {2, 3, 4}) {
    const Schedule schedule = estimate(lock_step(packs)).schedule;
    EXPECT_EQ(verify(schedule), std::vector<std::string>{}) << packs;
  }
}

TEST(LockStep, ComputesWhatTheSamePacksComputeOneAfterTheOther) {
  const Estimate together = estimate(lock_step(2));
  const Estimate apart = estimate(plan_with({{"gradient_accumulation", "2"}}));
  EXPECT_EQ(together.model_flops, apart.model_flops);
  EXPECT_EQ(together.hardware_flops, apart.hardware_flops);
}

Seconds exposed_exchange(const Estimate& estimate) {
  return estimate.account.traffic[static_cast<std::size_t>(Traffic::all_to_all)].exposed;
}

TEST(LockStep, HidesExchangesThatThePacksOneAfterTheOtherExpose) {
  const Estimate together = estimate(lock_step(2));
  const Estimate apart = estimate(plan_with({{"gradient_accumulation", "2"}}));
  EXPECT_LT(exposed_exchange(together), 0.7 * exposed_exchange(apart));
  EXPECT_LT(together.account.step, apart.account.step);
}

TEST(LockStep, KeepsTheInputsOfAllItsPacks) {
  const auto saved = [](const Plan& plan) {
    const Schedule schedule = estimate(plan).schedule;
    const MemoryPeak peak =
        memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss);
    return peak.by_category[static_cast<std::size_t>(MemoryCategory::saved_activations)].value;
  };
  EXPECT_EQ(saved(lock_step(2)), 2 * saved(lock_step(1)));
}

}  // namespace
}  // namespace xt
