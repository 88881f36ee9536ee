#include "planner/validate/row_recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "planner/recompute_ops.h"
#include "planner/validate/spelling.h"

namespace xt {
namespace {

bool says_any(const PublishedRow& row, std::span<const std::string_view> phrases) {
  return std::ranges::any_of(
      phrases, [&](std::string_view phrase) { return has_words(*row.recompute_detail, phrase); });
}

// Per-op recompute of torchtitan, by words that tell it.
constexpr std::string_view dropped_by_op = "norms+activations+every_second_product";
constexpr std::array<std::string_view, 9> per_op_words = {
    "per op",         "per operator",       "op level",
    "selective op",   "every second mm",    "every second matmul",
    "every other mm", "every other matmul", "every second matrix product"};
constexpr std::array<std::string_view, 2> half_of_layers_words = {"every second layer",
                                                                  "every other layer"};

bool recomputes_by_op(const PublishedRow& row) {
  return row.recompute == PublishedRecompute::selective && says_any(row, per_op_words);
}

// Products and attention are kept, and all else is computed again; products of experts too, which
// are no op of torchtitan's list, as exchanges of their rows are.
//
// Source: torchtitan, distributed/activation_checkpoint.py, _get_default_save_ops, which
// experiments/graph_trainer/memory_policy.py takes
constexpr std::array<std::string_view, 2> products_kept_details = {
    "default policy of the graph trainer", "minimal_flash policy"};

// What a module of a list recomputes.
struct OpsOfModule {
  std::string_view words;
  RecomputeOp op;
};

// Source: Megatron-LM, core/transformer/transformer_config.py, recompute_modules; for
// Megatron-Kwai, Yuan et al. 2024, "Accelerating the Training of Large Language Models using
// Efficient Activation Rematerialization and Optimal Hybrid Parallelism", USENIX ATC;
// MindSpeed, docs/features/activation-function-recompute.md and norm-recompute.md
constexpr std::array<OpsOfModule, 13> modules = {{
    {"core_attn", RecomputeOp::attention},
    {"core attention", RecomputeOp::attention},
    {"mlp", RecomputeOp::ffn},
    {"moe", RecomputeOp::ffn},
    {"moe_act", RecomputeOp::activations},
    {"moe activation", RecomputeOp::activations},
    {"activation function", RecomputeOp::activations},
    {"the activation function of the MLP are recomputed", RecomputeOp::activations},
    {"layernorm", RecomputeOp::layer_norms},
    {"layernorms", RecomputeOp::layer_norms},
    {"layer norm", RecomputeOp::layer_norms},
    {"norm", RecomputeOp::layer_norms},
    {"norms", RecomputeOp::layer_norms},
}};

// Source: MaxText, layers/decoders.py, get_remat_policy
constexpr std::string_view maxtext_policy =
    "policy save_dot_with_context_except_mlp: attention context and non-MLP matmul outputs saved, "
    "MLP recomputed";

std::optional<RecomputeOp> op_of_module(std::string_view module) {
  const auto found = std::ranges::find_if(
      modules, [&](const OpsOfModule& of) { return words_of(of.words) == words_of(module); });
  return found == modules.end() ? std::nullopt : std::optional(found->op);
}

// The first of `text` up to a comma, a plus or an `and`, which is taken off.
std::string_view take_module(std::string_view& text) {
  std::size_t end = text.size(), behind = end;
  for (const std::string_view separator :
       {std::string_view(","), std::string_view("+"), std::string_view(" and ")})
    if (const std::size_t at = text.find(separator); at < end)
      end = at, behind = at + separator.size();
  const std::string_view module = text.substr(0, end);
  text.remove_prefix(behind);
  return module;
}

// None where it lists what nothing here knows. An ffn that runs again has its activation run again.
std::optional<std::string> ops_of_modules(std::string_view detail) {
  RecomputeOps ops;
  do {
    const std::optional<RecomputeOp> op = op_of_module(take_module(detail));
    if (!op) return std::nullopt;
    ops.add(*op);
  } while (!detail.empty());
  return ops.text();
}

// InternEvo computes norms again where it keeps layers.
//
// Source: InternEvo, model/modeling_internlm.py, dropout_selective_checkpoint
bool recomputes_norms(const PublishedRow& row) {
  return has_words(row.framework, "InternEvo") && row.recompute == PublishedRecompute::none;
}

}  // namespace

std::optional<std::string> dropped_ops(const PublishedRow& row) {
  if (recomputes_by_op(row)) return std::string(dropped_by_op);
  if (recomputes_norms(row)) return "layer_norms";
  if (row.recompute != PublishedRecompute::selective) return std::nullopt;
  if (std::ranges::any_of(products_kept_details, [&](std::string_view begin) {
        return row.recompute_detail->starts_with(begin);
      }))
    return "norms+activations+expert_products";
  if (*row.recompute_detail == maxtext_policy) return "norms+ffn";
  return ops_of_modules(*row.recompute_detail);
}

namespace {

// "full recomputation of `some` of `all` layers" and what follows.
struct PartOfLayers {
  std::int64_t some = 0, all = 0;
  std::string_view rest;
};

std::optional<PartOfLayers> part_of_layers(std::string_view detail) {
  constexpr std::string_view begin = "full recomputation of ", of = " of ", layers = " layers";
  if (!detail.starts_with(begin)) return std::nullopt;
  PartOfLayers part;
  const auto take = [&](std::int64_t& n, std::string_view behind) {
    const auto [end, error] = std::from_chars(detail.data(), detail.data() + detail.size(), n);
    if (error != std::errc()) return false;
    detail.remove_prefix(static_cast<std::size_t>(end - detail.data()));
    if (!detail.starts_with(behind)) return false;
    detail.remove_prefix(behind.size());
    return true;
  };
  detail.remove_prefix(begin.size());
  if (!take(part.some, of) || !take(part.all, layers)) return std::nullopt;
  part.rest = detail;
  return part;
}

}  // namespace

// Recomputed layers are spread evenly over the chunks of a pipeline.
std::optional<std::string> recompute_of(const PublishedRow& row) {
  if (dropped_ops(row)) return "all";
  if (row.recompute == PublishedRecompute::none) return "none";
  if (row.recompute == PublishedRecompute::full) return "all";
  const std::string_view detail = *row.recompute_detail;
  if (says_any(row, half_of_layers_words)) return std::to_string(row.model.num_hidden_layers / 2);
  const auto part = part_of_layers(detail);
  const std::int64_t layers = row.model.num_hidden_layers;
  if (part && part->all == layers && part->rest.empty()) return std::to_string(part->some);
  const std::int64_t chunks = row.parallel.pp * row.parallel.vpp;
  if (part && part->all * chunks == layers && part->rest == " per chunk")
    return std::to_string(part->some * chunks);
  return std::nullopt;
}

}  // namespace xt
