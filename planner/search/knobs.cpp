#include "planner/search/knobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/document/writer.h"
#include "planner/plan/automatic.h"
#include "planner/plan/layers.h"

namespace xt {
namespace {

template <typename T>
using Field = std::optional<T> RunFile::*;

// A knob whose values do not depend on others'.
template <typename T>
Knob knob(const RunFile& given, KnobKind kind, std::string_view name, Field<T> field,
          std::vector<T> values) {
  if (given.*field) values = {*(given.*field)};
  Knob result{name, kind, {}};
  for (const T value : values)
    result.values.push_back(
        {write(value).text, [field, value](RunFile& run) { run.*field = value; }});
  return result;
}

// `parts` quarters of what `most` says of a run.
using Most = std::function<std::int64_t(const RunFile&)>;

KnobValue share(Field<Choice> field, std::string text, std::int64_t quarters, const Most& most) {
  return {std::move(text), [=](RunFile& run) {
            run.*field = Choice{ChoiceKind::number, most(run) * quarters / 4};
          }};
}

// A knob whose values are parts of so many layers. Of values that come to the same the first is
// kept, so that no layers are called none.
Knob layer_knob(const RunFile& given, std::string_view name, Field<Choice> field,
                const Most& most) {
  if (given.*field) return knob(given, KnobKind::layers, name, field, {});
  return {
      name,
      KnobKind::layers,
      {share(field, "none", 0, most), share(field, "1/4", 1, most), share(field, "1/2", 2, most),
       share(field, "3/4", 3, most), share(field, "all", 4, most)}};
}

std::vector<std::int64_t> powers_of_two(std::int64_t first, std::int64_t most) {
  std::vector<std::int64_t> powers;
  for (std::int64_t power = first; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

std::vector<std::int64_t> shards(std::int64_t ranks, std::int64_t node) {
  std::vector<std::int64_t> sizes{ranks};
  for (const std::int64_t size : powers_of_two(node, ranks - 1)) sizes.push_back(size);
  return sizes;
}

std::vector<std::int64_t> zero_stages(const EngineRules& rules) {
  std::vector<std::int64_t> stages;
  for (std::int64_t stage = rules.most_zero; stage >= rules.least_zero; --stage)
    stages.push_back(stage);
  return stages;
}

std::vector<Choice> chunks(const EngineRules& rules, std::int64_t tokens) {
  if (!rules.chunks_loss) return {{ChoiceKind::none, 0}};
  std::vector<Choice> choices;
  for (const std::int64_t chunk : loss_chunks(tokens))
    choices.push_back({ChoiceKind::number, chunk});
  return choices;
}

// All of a layer, or what is cheap beside the memory that it frees.
std::vector<RecomputeOps> recomputed_ops(const EngineRules& rules) {
  std::vector<RecomputeOps> result{RecomputeOps{}};
  if (!rules.drops_by_op) return result;
  for (const char* text : {"norms+activations", "norms+activations+every_second_product"})
    result.push_back(*RecomputeOps::from_text(text).value);
  return result;
}

std::vector<Dispatch> dispatches(const Subject& subject, const EngineRules& rules) {
  std::vector<Dispatch> result{Dispatch::all_to_all};
  if (!subject.architecture.is_moe()) return result;
  if (rules.sends_copies) result.push_back(Dispatch::deep_ep);
  if (rules.agrs_ranks > 0) result.push_back(Dispatch::agrs);
  return result;
}

std::int64_t recomputed(const RunFile& run, std::int64_t most) {
  const Choice choice = run.recompute.value_or(Choice{ChoiceKind::all, 0});
  if (choice.kind == ChoiceKind::all) return most;
  return choice.kind == ChoiceKind::number ? choice.number : 0;
}

}  // namespace

// What an engine or a model never has is not tried.
std::vector<Knob> knobs(const RunFile& given, const Subject& subject, const EngineRules& rules) {
  const std::int64_t node = subject.profile.ranks_per_node();
  const std::int64_t ranks = given.devices.value_or(1) * subject.profile.ranks_per_device;
  const bool leaves_node = given.expert_parallel_across_nodes.value_or(false);
  const bool is_moe = subject.architecture.is_moe();
  const std::int64_t most_experts = !is_moe ? 1 : leaves_node ? ranks : std::min(ranks, node);
  const std::int64_t most_packs = given.intra_layer_micro_batches.value_or(2);
  const std::int64_t tokens = given.pack_length.value_or(default_pack_length) * most_packs;
  const std::int64_t layers = recomputable_layers(subject.architecture, rules);
  constexpr std::int64_t usual_stages = 16;
  const std::int64_t most_stages =
      std::min({ranks, subject.architecture.num_hidden_layers, usual_stages});
  const bool swaps = is_moe || rules.swaps_dense;
  const Most recomputable = [=](const RunFile&) { return layers; };
  const Most swappable = [=](const RunFile& run) { return recomputed(run, layers); };
  using Counts = std::vector<std::int64_t>;
  using Flags = std::vector<bool>;
  const KnobKind of_layout = KnobKind::layout, of_layers = KnobKind::layers;
  return {
      knob(given, of_layout, "expert_parallel", &RunFile::expert_parallel,
           powers_of_two(1, most_experts)),
      knob(given, of_layout, "dispatch", &RunFile::dispatch, dispatches(subject, rules)),
      knob(given, of_layout, "shard_ranks", &RunFile::shard_ranks,
           rules.replicates ? shards(ranks, node) : Counts{ranks}),
      knob(given, of_layout, "sequence_parallel", &RunFile::sequence_parallel,
           rules.splits_sequences ? Counts{1, 2, 4, 8} : Counts{1}),
      knob(given, of_layout, "context_parallel", &RunFile::context_parallel,
           rules.splits_context ? Counts{1, 2, 4, 8} : Counts{1}),
      knob(
          given, of_layout, "tensor_parallel", &RunFile::tensor_parallel,
          rules.splits_tensors ? powers_of_two(1, std::min<std::int64_t>(ranks, node)) : Counts{1}),
      knob(given, of_layout, "pipeline_parallel", &RunFile::pipeline_parallel,
           powers_of_two(1, rules.has_pipelines ? most_stages : 1)),
      knob(given, of_layout, "virtual_stages", &RunFile::virtual_stages,
           rules.has_pipelines ? Counts{1, 2, 4} : Counts{1}),
      knob(given, of_layout, "zero", &RunFile::zero, zero_stages(rules)),
      knob(given, of_layout, "intra_layer_micro_batches", &RunFile::intra_layer_micro_batches,
           rules.runs_in_lock_step ? Counts{1, 2} : Counts{1}),
      knob(given, of_layout, "swap_optimizer", &RunFile::swap_optimizer,
           rules.swaps_optimizer ? Flags{false, true} : Flags{false}),
      knob(given, of_layout, "recompute_ops", &RunFile::recompute_ops, recomputed_ops(rules)),
      layer_knob(given, "recompute", &RunFile::recompute, recomputable),
      swaps ? layer_knob(given, "swap", &RunFile::swap, swappable)
            : knob(given, of_layers, "swap", &RunFile::swap, {Choice{ChoiceKind::none, 0}}),
      knob(given, of_layers, "reshard_after_forward", &RunFile::reshard_after_forward,
           Flags{true, false}),
      knob(given, of_layers, "loss_chunk", &RunFile::loss_chunk, chunks(rules, tokens)),
  };
}

}  // namespace xt
