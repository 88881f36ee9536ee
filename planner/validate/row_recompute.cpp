#include "planner/validate/row_recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace xt {
namespace {

// Per-op recompute of torchtitan, by how rows begin to tell it.
constexpr std::string_view dropped_by_op = "norms+activations+every_second_product";
constexpr std::array<std::string_view, 2> per_op_details = {"per-op selective checkpointing",
                                                            "per operator:"};

bool recomputes_by_op(const PublishedRow& row) {
  return row.recompute == PublishedRecompute::selective &&
         std::ranges::any_of(per_op_details, [&](std::string_view begin) {
           return row.recompute_detail->starts_with(begin);
         });
}

// Products and attention are kept, and all else is computed again; products of experts too, which
// are no op of torchtitan's list, as exchanges of their rows are.
//
// Source: torchtitan, distributed/activation_checkpoint.py, _get_default_save_ops, which
// experiments/graph_trainer/memory_policy.py takes
constexpr std::array<std::string_view, 2> products_kept_details = {
    "default policy of the graph trainer", "minimal_flash policy"};

// Ops that other rows name.
struct OpsOfDetail {
  std::string_view detail;
  std::string_view ops;
};

// Source: Megatron-LM, core/transformer/transformer_config.py, recompute_modules; for
// Megatron-Kwai, Yuan et al. 2024, "Accelerating the Training of Large Language Models using
// Efficient Activation Rematerialization and Optimal Hybrid Parallelism", USENIX ATC;
// MindSpeed, docs/features/activation-function-recompute.md and norm-recompute.md; MaxText,
// layers/decoders.py, get_remat_policy
constexpr std::array<OpsOfDetail, 11> ops_of_details = {{
    {"core_attn", "attention"},
    {"mlp", "ffn"},
    {"mlp, core_attn", "ffn+attention"},
    {"moe, layernorm", "ffn+layer_norms"},
    {"moe_act, layernorm", "activations+layer_norms"},
    {"layernorm, moe_act", "activations+layer_norms"},
    {"layernorm, moe activation", "activations+layer_norms"},
    {"norms and the activation function of the MLP are recomputed", "activations+layer_norms"},
    {"activation-function", "activations"},
    {"activation-function, norm", "activations+layer_norms"},
    {"policy save_dot_with_context_except_mlp: attention context and non-MLP matmul outputs saved, "
     "MLP recomputed",
     "norms+ffn"},
}};

// InternEvo computes norms again where it keeps layers.
//
// Source: InternEvo, model/modeling_internlm.py, dropout_selective_checkpoint
bool recomputes_norms(const PublishedRow& row) {
  return row.framework.starts_with("InternEvo") && row.recompute == PublishedRecompute::none;
}

}  // namespace

std::optional<std::string_view> dropped_ops(const PublishedRow& row) {
  if (recomputes_by_op(row)) return dropped_by_op;
  if (recomputes_norms(row)) return "layer_norms";
  if (row.recompute != PublishedRecompute::selective) return std::nullopt;
  if (std::ranges::any_of(products_kept_details, [&](std::string_view begin) {
        return row.recompute_detail->starts_with(begin);
      }))
    return "norms+activations+expert_products";
  const auto found = std::ranges::find(ops_of_details, *row.recompute_detail, &OpsOfDetail::detail);
  return found == ops_of_details.end() ? std::nullopt : std::optional(found->ops);
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
  if (detail == "full recomputation of every second layer")
    return std::to_string(row.model.num_hidden_layers / 2);
  const auto part = part_of_layers(detail);
  const std::int64_t layers = row.model.num_hidden_layers;
  if (part && part->all == layers && part->rest.empty()) return std::to_string(part->some);
  const std::int64_t chunks = row.parallel.pp * row.parallel.vpp;
  if (part && part->all * chunks == layers && part->rest == " per chunk")
    return std::to_string(part->some * chunks);
  return std::nullopt;
}

}  // namespace xt
