// Plans drawn from the strategy space train alike: a layout changes how a step is computed, and
// never what it computes.

#include "tests/executor/train/equivalence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace xt {
namespace {

constexpr std::uint64_t seed = 20261202;  // under which rounding turns no choice of experts
constexpr std::size_t n_plans = 64, n_narrow_plans = 12;
const std::vector<std::int64_t> rank_counts = {1, 2, 4};

/// In fp32 and in bf16, whose curves may differ from the reference's in fp32 by so much.
struct Precision {
  std::string name;
  std::vector<DrawnPlan> plans;
  double tolerance;
};

const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all = {
      {"fp32", draw_plans(seed, n_plans), 1e-5},
      {"bf16", draw_plans(seed + 1, n_narrow_plans, {{"compute_dtype", "bf16"}}), 3e-3}};
  return all;
}

std::string scenario_name(const Precision& precision, std::int64_t ranks) {
  return fmt::format("{}_{}", precision.name, ranks);
}

double largest_difference(const TrainedRun& a, const TrainedRun& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::abs(a.losses[i] / b.losses[i] - 1));
  return largest;
}

/// Runs every plan of so many ranks, its twin and its reference.
void compare_plans(const Precision& precision, std::int64_t ranks, Rendezvous& rendezvous,
                   GlooNetwork& network) {
  std::map<std::tuple<std::string, bool, test::Flags>, TrainedRun> references;
  int n = 0;
  for (const DrawnPlan& of : precision.plans) {
    if (of.ranks != ranks) continue;
    const auto unique = [&](const char* what) { return fmt::format("{}{}", what, n++); };
    TrainedRun& reference = references[{of.model, of.is_packed, of.learns_by()}];
    if (reference.losses.empty())
      reference = train_by(of.reference(), unique("reference"), rendezvous, network);
    const TrainedRun found = train_by(of, unique("plan"), rendezvous, network);
    const double difference = largest_difference(found, reference);
    require(difference <= precision.tolerance,
            fmt::format("{}: losses differ by {} from one rank's: {} and {}", of.text(), difference,
                        fmt::join(found.losses, " "), fmt::join(reference.losses, " ")));
    const TrainedRun twin = train_by(of.twin(), unique("twin"), rendezvous, network);
    require(found.digest == twin.digest, of.text() + ": recompute, swap or overlap changed a bit");
  }
}

class Equivalence : public testing::TestWithParam<std::pair<std::size_t, std::int64_t>> {};

TEST_P(Equivalence, AllPlansGiveTheLossesOfOneRankAndRecomputeSwapAndOverlapChangeNoBit) {
  const auto& [precision, ranks] = GetParam();
  EXPECT_EQ(run_ranks(scenario_name(precisions()[precision], ranks), static_cast<int>(ranks)), 0);
}

std::vector<std::pair<std::size_t, std::int64_t>> all_scenarios() {
  std::vector<std::pair<std::size_t, std::int64_t>> all;
  for (std::size_t i = 0; i < 2; ++i)
    for (const std::int64_t ranks : rank_counts) all.emplace_back(i, ranks);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Equivalence, testing::ValuesIn(all_scenarios()),
                         [](const auto& of) {
                           return fmt::format("{}Of{}", of.param.first == 0 ? "fp32" : "bf16",
                                              of.param.second);
                         });

// What the plans are a sample of: every axis of the space has been drawn, alone or with others.
TEST(DrawnPlans, CoverTheStrategySpace) {
  std::set<std::string> seen;
  for (const DrawnPlan& of : precisions().front().plans) {
    const Strategy s = of.plan().strategy;
    const auto note = [&](bool holds, const char* what) {
      if (holds) seen.insert(what);
    };
    seen.insert(fmt::format("ranks {}", s.ranks));
    seen.insert(fmt::format("ep {}", s.expert_parallel));
    note(s.replicas() > 1 && s.shard_ranks > 1, "hsdp");
    note(s.sequence_parallel == 2, "sp");
    note(s.intra_layer_micro_batches == 2 && s.expert_parallel > 1, "domino");
    note(s.sequence_parallel == 2 && s.intra_layer_micro_batches == 2, "sp and lock-step");
    note(s.replicas() > 1 && s.sequence_parallel == 2, "hsdp and sp");
    note(s.swap_layers > 0, "swap");
    note(s.recompute_layers > 0 && s.recompute_ops.is_all(), "recompute");
    note(!s.recompute_ops.is_all(), "selective recompute");
    note(s.loss_chunk < s.loss_tokens(), "chunked loss");
    note(s.gradient_accumulation > 1, "accumulation");
    note(of.is_packed, "packing");
    note(!s.reshards_layers, "gathered weights stay");
    note(s.optimizer == Optimizer::muon && s.ranks == 4, "muon");
  }
  const std::set<std::string> all = {"ranks 1",
                                     "ranks 2",
                                     "ranks 4",
                                     "ep 1",
                                     "ep 2",
                                     "ep 4",
                                     "hsdp",
                                     "sp",
                                     "domino",
                                     "sp and lock-step",
                                     "hsdp and sp",
                                     "swap",
                                     "recompute",
                                     "selective recompute",
                                     "chunked loss",
                                     "accumulation",
                                     "muon",
                                     "packing",
                                     "gathered weights stay"};
  EXPECT_EQ(seen, all);
}

std::map<std::string, Scenario> scenarios() {
  std::map<std::string, Scenario> all;
  for (const Precision& precision : precisions())
    for (const std::int64_t ranks : rank_counts)
      all[scenario_name(precision, ranks)] = [&, ranks](Rendezvous& rendezvous,
                                                        GlooNetwork& network) {
        compare_plans(precision, ranks, rendezvous, network);
      };
  return all;
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) { return xt::ranks_main(argc, argv, xt::scenarios()); }
