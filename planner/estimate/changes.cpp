#include "planner/estimate/changes.h"

namespace xt {
namespace {

class Changes {
 public:
  Changes(const RunFile& run, const Plan& plan, bool fits)
      : run_(run), plan_(plan), s_(plan.strategy), fits_(fits) {}

  std::vector<Change> list() {
    recompute();
    swap();
    loss();
    packs();
    shards();
    stages();
    add(more_devices(plan_, 2));
    numbers();
    return std::move(list_);
  }

 private:
  void recompute();
  void swap();
  void loss();
  void packs();
  void shards();
  void stages();
  void numbers();

  /// All layers that the engine can, as it does where nothing else is said.
  bool recomputes_all() const { return !run_.recompute || run_.recompute->kind == ChoiceKind::all; }
  void add(Change change) { list_.push_back(std::move(change)); }
  /// A change that gives a micro-step half the tokens.
  void add_with_twice_the_micro_steps(Change change) {
    change.emplace_back("gradient_accumulation", std::to_string(2 * s_.gradient_accumulation));
    add(std::move(change));
  }

  const RunFile& run_;
  const Plan& plan_;
  const Strategy& s_;
  bool fits_;
  std::vector<Change> list_;
};

void Changes::recompute() {
  const std::int64_t layers = plan_.architecture.decoder_layers();
  if (!recomputes_all()) add({{"recompute", std::to_string((s_.recompute_layers + layers) / 2)}});
  add({{"recompute", "all"}});
  if (!s_.recompute_ops.is_all()) add({{"recompute_ops", "all"}});
  const bool has_none = s_.recompute_layers == 0;
  if (s_.recompute_ops.is_all() && !has_none) return;
  for (std::size_t i = 0; i < recompute_op_names.size(); ++i) {
    RecomputeOps ops = s_.recompute_ops;
    ops.add(static_cast<RecomputeOp>(i));
    Change change{{"recompute_ops", ops.text()}};
    if (has_none) change.emplace_back("recompute", "all");
    add(std::move(change));
  }
}

void Changes::swap() {
  if (!fits_) add({{"swap", "auto"}});
  add({{"swap", std::to_string((s_.swap_layers + s_.recompute_layers) / 2)}});
  add({{"swap", "all"}});
  if (!recomputes_all()) add({{"recompute", "all"}, {"swap", "all"}});
  if (!s_.swaps_optimizer) add({{"swap_optimizer", "true"}});
}

void Changes::loss() {
  constexpr std::int64_t usual_chunk = 1024;
  if (s_.loss_chunk > 1) add({{"loss_chunk", std::to_string(s_.loss_chunk / 2)}});
  if (s_.loss_chunk > usual_chunk) add({{"loss_chunk", std::to_string(usual_chunk)}});
}

void Changes::packs() {
  const bool has_default_samples = !run_.sample_length && !run_.sample_lengths;
  const std::int64_t half = s_.pack_length / 2;
  Change pack{{"pack_length", std::to_string(half)}};
  // Samples as long as the pack are cut with it, and the change says so.
  if (has_default_samples) pack.emplace_back("sample_length", std::to_string(half));
  if (s_.pack_length % 2 == 0) add_with_twice_the_micro_steps(std::move(pack));
  if (s_.intra_layer_micro_batches % 2 == 0)
    add_with_twice_the_micro_steps(
        {{"intra_layer_micro_batches", std::to_string(s_.intra_layer_micro_batches / 2)}});
  add_with_twice_the_micro_steps({{"sequence_parallel", std::to_string(2 * s_.sequence_parallel)}});
  add_with_twice_the_micro_steps({{"context_parallel", std::to_string(2 * s_.context_parallel)}});
  for (std::int64_t times = 2; times * s_.tensor_parallel <= plan_.profile.ranks_per_node();
       times *= 2)
    add({{"tensor_parallel", std::to_string(times * s_.tensor_parallel)},
         {"gradient_accumulation", std::to_string(times * s_.gradient_accumulation)}});
}

void Changes::shards() {
  if (!s_.reshards_layers) add({{"reshard_after_forward", "true"}});
  if (s_.zero < 3) add({{"zero", std::to_string(s_.zero + 1)}});
  if (s_.replicas() > 1) add({{"shard_ranks", std::to_string(s_.ranks)}});
  for (std::int64_t ranks = 2 * s_.expert_parallel; ranks <= plan_.profile.ranks_per_node();
       ranks *= 2)
    add({{"expert_parallel", std::to_string(ranks)}});
}

// On as many devices twice as many stages leave half as many ranks to share the micro-steps.
void Changes::stages() {
  if (s_.expert_parallel_overlap) add({{"expert_parallel_overlap", "false"}});
  if (s_.pipeline_parallel == 1) return;
  if (s_.pipeline_schedule == ChunkOrder::zero_bubble) add({{"pipeline_schedule", "1f1b"}});
  add({{"pipeline_parallel", std::to_string(2 * s_.pipeline_parallel)},
       {"gradient_accumulation", std::to_string(2 * s_.gradient_accumulation)}});
  if (s_.virtual_stages > 1 && s_.virtual_stages % 2 == 0)
    add({{"virtual_stages", std::to_string(s_.virtual_stages / 2)}});
  if (s_.offload_share < 0.5) add({{"offload_share", "0.5"}});
  if (s_.offload_share < 1) add({{"offload_share", "1"}});
}

void Changes::numbers() {
  if (!s_.has_fp8_products) add({{"fp8_products", "true"}});
  if (!s_.is_compiled) add({{"compile", "true"}});
  if (s_.reduce_dtype != DType::bf16) add({{"reduce_dtype", "bf16"}});
}

}  // namespace

Change more_devices(const Plan& plan, std::int64_t times) {
  const std::int64_t micro_steps = plan.strategy.gradient_accumulation;
  Change change{{"devices", std::to_string(times * plan.devices)}};
  if (micro_steps > 1 && micro_steps % times == 0)
    change.emplace_back("gradient_accumulation", std::to_string(micro_steps / times));
  return change;
}

Change resolved_choices(const Plan& plan) {
  const Strategy& s = plan.strategy;
  // Engines whose loss is whole refuse a number.
  const bool is_whole = s.loss_chunk == s.loss_tokens();
  return {{"loss_chunk", is_whole ? "none" : std::to_string(s.loss_chunk)},
          {"recompute", std::to_string(s.recompute_layers)},
          {"swap", std::to_string(s.swap_layers)}};
}

std::vector<Change> changes_of(const RunFile& run, const Plan& plan, bool fits) {
  return Changes(run, plan, fits).list();
}

}  // namespace xt
