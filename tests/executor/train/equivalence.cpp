#include "tests/executor/train/equivalence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/train/parameters.h"
#include "executor/train/trainer.h"
#include "planner/lower/lower.h"
#include "tests/executor/train/digest.h"
#include "tests/executor/train/schedule_memory.h"

namespace xt {
namespace {

constexpr int n_steps = 10;
constexpr std::int64_t pack_length = 48, packs_of_step = 8;
constexpr std::int64_t vocabulary = 128;

/// Pack `index`, of one sample or of several.
Pack pack_at(std::int64_t index, bool is_packed) {
  std::mt19937 random(static_cast<std::uint32_t>(1000 + index));
  std::vector<std::vector<std::int64_t>> pieces;
  for (std::int64_t left = pack_length; left > 0;) {
    const std::int64_t length =
        is_packed ? std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(random() % 20))
                  : left;
    std::vector<std::int64_t>& piece = pieces.emplace_back();
    // Tokens that follow each other a little more often than others, so that there is something to
    // learn.
    std::int64_t token = static_cast<std::int64_t>(random() % vocabulary);
    for (std::int64_t i = 0; i < length; ++i) {
      piece.push_back(token);
      token = (random() % 2 == 0 ? token + 1 : static_cast<std::int64_t>(random())) % vocabulary;
    }
    left -= length;
  }
  return pack_of(pieces);
}

/// Draws one plan, which the planner may refuse.
class Draw {
 public:
  explicit Draw(std::mt19937& random) : random_(random) {}

  DrawnPlan plan() {
    DrawnPlan drawn;
    drawn.model = one_of<std::string>({"qwen3_moe", "qwen3_moe", "mixtral", "mixtral", "qwen3_tied",
                                       "qwen3_untied", "llama", "qwen2", "gpt_oss", "gpt_oss",
                                       "deepseek_v3", "deepseek_v3"});
    drawn.is_packed = one_of<bool>({true, true, false});
    drawn.ranks = one_of<std::int64_t>({1, 2, 2, 4, 4});
    constexpr std::array<std::string_view, 4> routed = {"qwen3_moe", "mixtral", "gpt_oss",
                                                        "deepseek_v3"};
    const bool is_moe = std::ranges::find(routed, drawn.model) != routed.end();
    const std::int64_t sequence = drawn.ranks > 1 ? one_of<std::int64_t>({1, 1, 2}) : 1;
    const std::int64_t packs = is_moe ? one_of<std::int64_t>({1, 2}) : 1;
    set(drawn, "sequence_parallel", sequence);
    set(drawn, "intra_layer_micro_batches", packs);
    set(drawn, "gradient_accumulation", packs_of_step / (drawn.ranks / sequence * packs));
    if (is_moe) set(drawn, "expert_parallel", one_of<std::int64_t>({1, 2, 4}));
    if (one_of<bool>({true, false, false}) && drawn.ranks > 1)
      set(drawn, "shard_ranks", drawn.ranks / 2);
    if (is_moe && drawn.model != "deepseek_v3" && sequence == 1 && one_of<bool>({true, false}))
      set(drawn, "balance_loss", "0.05");
    set(drawn, "optimizer", one_of<std::string>({"adamw", "adamw", "adamw", "muon"}));
    set(drawn, "loss_chunk", one_of<std::int64_t>({7, 16, 20, 48, 96}));
    set(drawn, "reshard_after_forward", one_of<std::string>({"true", "true", "false"}));
    draw_recompute(drawn);
    return drawn;
  }

 private:
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }

  template <typename T>
  static void set(DrawnPlan& drawn, const char* flag, const T& value) {
    drawn.flags.emplace_back(flag, fmt::format("{}", value));
  }

  void draw_recompute(DrawnPlan& drawn) {
    const std::int64_t layers = one_of<std::int64_t>({1, 2, 2});
    set(drawn, "recompute", layers);
    set(drawn, "swap", one_of<std::int64_t>({0, 1, layers}));
    set(drawn, "recompute_ops",
        one_of<std::string>({"all", "all", "norms", "norms+activations", "attention", "experts",
                             "products+norms", "every_second_product", "layer_norms", "ffn"}));
  }

  std::mt19937& random_;
};

Communicators communicators_of(const Schedule& schedule, const std::string& name, int rank,
                               GlooNetwork& network) {
  Communicators communicators;
  for (const auto& [lane, group] : traffic_groups(schedule)) {
    const GroupShape& shape = schedule.group(group);
    const int l = static_cast<int>(lane), g = static_cast<int>(group);
    const std::vector<int> members = schedule.ranks == 1
                                         ? std::vector<int>{rank}
                                         : group_members(rank, shape.size, shape.stride);
    communicators[static_cast<std::size_t>(l)][static_cast<std::size_t>(g)] =
        network.group(fmt::format("{}/{}/{}", name, l, g), members);
  }
  return communicators;
}

}  // namespace

std::string DrawnPlan::text() const {
  std::string line = fmt::format("{} {} on {} ranks", model, is_packed ? "packed" : "whole", ranks);
  for (const auto& [flag, value] : flags) line += fmt::format(" {} {}", flag, value);
  return line;
}

Plan DrawnPlan::plan() const {
  const test::Flags common = {{"model", fmt::format("{}/{}/config.json", XT_ORACLE_DATA, model)},
                              {"machine", "h100_sxm"},
                              {"devices", std::to_string(ranks)},
                              {"pack_length", std::to_string(pack_length)},
                              {"learning_rate", "3e-3"},
                              {"learning_rate_schedule", "cosine"},
                              {"warmup_steps", "2"},
                              {"decay_steps", "12"}};
  return test::plan_of(test::with(common, flags));
}

test::Flags DrawnPlan::learns_by() const {
  test::Flags learning;
  for (const auto& flag : flags)
    if (flag.first == "optimizer" || flag.first == "balance_loss") learning.push_back(flag);
  return learning;
}

DrawnPlan DrawnPlan::reference() const {
  DrawnPlan alone{model,
                  is_packed,
                  1,
                  {{"gradient_accumulation", std::to_string(packs_of_step)},
                   {"recompute", "none"},
                   {"loss_chunk", "none"}}};
  for (const auto& flag : learns_by()) alone.flags.push_back(flag);
  return alone;
}

DrawnPlan DrawnPlan::twin() const {
  DrawnPlan other = *this;
  std::erase_if(other.flags, [](const auto& flag) { return flag.first == "recompute_ops"; });
  other.flags = test::with(
      other.flags, {{"recompute", "none"}, {"swap", "none"}, {"communication_overlap", "false"}});
  const bool has_muon = std::ranges::find(flags, std::pair<std::string, std::string>{
                                                     "optimizer", "muon"}) != flags.end();
  if (!has_muon) other.flags.emplace_back("swap_optimizer", "true");
  return other;
}

std::vector<DrawnPlan> draw_plans(std::uint64_t seed, std::size_t n, const test::Flags& further) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::vector<DrawnPlan> plans;
  std::size_t n_refused = 0;
  while (plans.size() < n) {
    DrawnPlan drawn = Draw(random).plan();
    drawn.flags.insert(drawn.flags.end(), further.begin(), further.end());
    try {
      (void)drawn.plan();
      plans.push_back(std::move(drawn));
    } catch (const InputError& error) {
      if (++n_refused > 20 * n)
        throw std::runtime_error(drawn.text() + " and most: " + error.what());
    }
  }
  return plans;
}

TrainedRun train_by(const DrawnPlan& of, const std::string& name, Rendezvous& rendezvous,
                    GlooNetwork& network) {
  const Plan plan = of.plan();
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  const int rank = rendezvous.place().rank;
  const int place = of.ranks == 1 ? 0 : rank;
  Trainer trainer(
      schedule, cpu_kernels(), communicators_of(schedule, name, rank, network), place,
      [&](std::int64_t index) { return pack_at(index, of.is_packed); }, plan.optimizer);
  initialise_parameters(schedule, trainer.state().memory, place, 7);
  TrainedRun run;
  BitDigest digest;
  for (int step = 0; step < n_steps; ++step) {
    const StepOutcome outcome = trainer.step();
    require_memory(trainer.state(), outcome.result.timeline, of.text());
    run.losses.push_back(outcome.loss);
  }
  digest.add(run.losses.data(), run.losses.size() * sizeof(double));
  for (const Flat& flat : schedule.flats) {
    const at::Tensor shard = trainer.state().memory.tensor(flat.parameter);
    digest.add(shard.const_data_ptr(), shard.nbytes());
  }
  run.digest = digest.value();
  return run;
}

}  // namespace xt
