#include "planner/plan/check.h"

#include <fmt/format.h>

#include "costmodel/hardware/collective.h"
#include "costmodel/models/decoder.h"

namespace xt {
namespace {

class Checks {
 public:
  Checks(const Plan& plan, const EngineRules& rules, Request& request)
      : plan_(plan), rules_(rules), request_(request), from_(request.fields()) {}

  void run() {
    check_experts();
    check_engine();
    check_machine();
  }

 private:
  void check_experts();
  void check_engine();
  void check_dispatch();
  void check_agrs();
  void check_sequence();
  void check_context();
  void check_context_lengths();
  void check_zero();
  void check_tensor();
  void check_tensor_shapes();
  void check_node(std::string_view field, std::int64_t ranks, std::optional<bool> may_leave,
                  std::string_view what);
  void check_shards();
  void check_machine();
  void check_fp8();
  void check_groups();

  const Plan& plan_;
  const EngineRules& rules_;
  Request& request_;
  const RunFile& from_;
};

void Checks::check_experts() {
  const Strategy& s = plan_.strategy;
  const Architecture& a = plan_.architecture;
  if (s.expert_parallel == 1 && s.routing_imbalance != 1)
    request_.problem("routing_imbalance",
                     "every rank has all experts, so all have equally many rows",
                     "set expert_parallel, or leave it out");
  if (s.routing_imbalance > static_cast<double>(s.expert_parallel))
    request_.problem("routing_imbalance",
                     fmt::format("one of {} ranks cannot have more than {} times the mean",
                                 s.expert_parallel, s.expert_parallel));
  if (s.expert_parallel == 1) return;
  if (!a.is_moe()) {
    request_.problem("expert_parallel", fmt::format("{} has no experts to spread over {} ranks",
                                                    plan_.model_name, s.expert_parallel));
    return;
  }
  if (a.num_experts % s.expert_parallel != 0)
    request_.problem("expert_parallel", fmt::format("{} experts are not divisible by {} ranks",
                                                    a.num_experts, s.expert_parallel));
  if (s.stage_ranks() % s.expert_parallel != 0)
    request_.problem("expert_parallel", fmt::format("{} ranks are not divisible by {}",
                                                    s.stage_ranks(), s.expert_parallel));
  check_node("expert_parallel", s.expert_parallel, from_.expert_parallel_across_nodes, "rows");
}

// Groups that exchange `what` in every layer leave a node only where the user asks for it.
void Checks::check_node(std::string_view field, std::int64_t ranks, std::optional<bool> may_leave,
                        std::string_view what) {
  const std::int64_t node = plan_.profile.ranks_per_node();
  if (ranks <= node || may_leave.value_or(false)) return;
  request_.problem(
      field, fmt::format("{} ranks do not fit a node of {} ranks", ranks, node),
      fmt::format("set {}_across_nodes to true to exchange {} between nodes", field, what));
}

// What the engine's rules have no answer to.
void Checks::check_engine() {
  const Strategy& s = plan_.strategy;
  check_executed(plan_, rules_, request_);
  if (s.intra_layer_micro_batches > 1 && !rules_.runs_in_lock_step)
    request_.problem("intra_layer_micro_batches",
                     fmt::format("{} does not run packs in lock-step", rules_.name),
                     "engine xtuner_v1 does; gradient_accumulation runs packs one after the other");
  check_dispatch();
  if (s.intra_layer_micro_batches > 1 && !plan_.architecture.is_moe())
    request_.problem("intra_layer_micro_batches",
                     fmt::format("{} does not run dense models in lock-step", rules_.name),
                     "gradient_accumulation runs packs one after the other");
  check_optimizer(plan_, rules_, request_);
  if (s.has_fp8_products && !rules_.has_fp8_products)
    request_.problem("fp8_products", fmt::format("{} has no products in fp8", rules_.name),
                     "engine xtuner_v1 has");
  check_sequence();
  check_kernels(plan_, rules_, request_);
  check_transformer_engine(plan_, rules_, request_);
  check_further_tokens(plan_, rules_, request_);
  check_pairs(plan_, rules_, request_);
  check_overlap(plan_, rules_, request_);
  check_offload(plan_, rules_, request_);
  check_attention(plan_, rules_, request_);
  check_context();
  check_tensor();
  check_zero();
  if (s.shard_ranks == 0) return;
  if (!rules_.replicates)
    request_.problem("shard_ranks", fmt::format("{} does not replicate parameters", rules_.name),
                     "engine xtuner_v1 does (HSDP)");
  check_shards();
}

void Checks::check_dispatch() {
  const Strategy& s = plan_.strategy;
  if (s.dispatch == Dispatch::all_to_all) return;
  if (s.expert_parallel == 1)
    request_.problem("dispatch", "every rank has all experts, so nothing is sent",
                     "set expert_parallel, or leave it out");
  const bool has_it = s.dispatch == Dispatch::deep_ep ? rules_.sends_copies : rules_.agrs_ranks > 0;
  if (!has_it) {
    request_.problem("dispatch", fmt::format("{} sends a row per expert", rules_.name),
                     "engine xtuner_v1 can send a token per rank, or gather all tokens");
  } else if (s.dispatch == Dispatch::agrs && s.expert_parallel > 1) {
    check_agrs();
  }
}

// The router has one group of experts per rank and chooses equally many experts in each.
void Checks::check_agrs() {
  const Strategy& s = plan_.strategy;
  const std::int64_t ranks = rules_.agrs_ranks, top_k = plan_.architecture.num_experts_per_tok;
  if (s.expert_parallel != ranks)
    request_.problem(
        "dispatch",
        fmt::format("agrs gathers the tokens of {} ranks, not of {}", ranks, s.expert_parallel),
        fmt::format("set expert_parallel to {}", ranks));
  if (plan_.architecture.is_moe() && top_k != ranks)
    request_.problem("dispatch",
                     fmt::format("agrs needs a token to have an expert on each of {} ranks, but {} "
                                 "routes it to {}",
                                 ranks, plan_.model_name, top_k));
  if (s.routing_imbalance != 1)
    request_.problem("routing_imbalance",
                     "agrs brings every rank equally many rows, whatever the router chooses",
                     "leave it out");
}

void Checks::check_sequence() {
  const Strategy& s = plan_.strategy;
  const Architecture& a = plan_.architecture;
  const std::int64_t sp = s.sequence_parallel, kv = a.num_key_value_heads;
  if (sp == 1) return;
  if (!rules_.splits_sequences)
    request_.problem("sequence_parallel",
                     fmt::format("{} does not split a pack over ranks", rules_.name),
                     "engine xtuner_v1 does (Ulysses)");
  if (s.stage_ranks() % sp != 0)
    request_.problem("sequence_parallel",
                     fmt::format("{} ranks are not divisible by {}", s.stage_ranks(), sp));
  if (s.pack_length % sp != 0)
    request_.problem("sequence_parallel",
                     fmt::format("packs of {} tokens are not divisible by {}", s.pack_length, sp));
  if (a.has_mla())
    request_.problem("sequence_parallel",
                     fmt::format("{} does not split latent attention over ranks", rules_.name));
  if (a.num_attention_heads % sp != 0 || (kv % sp != 0 && sp % kv != 0))
    request_.problem("sequence_parallel",
                     fmt::format("{} query and {} key heads cannot be spread over {} ranks",
                                 a.num_attention_heads, kv, sp));
  check_node("sequence_parallel", sp, from_.sequence_parallel_across_nodes, "heads");
}

void Checks::check_context() {
  const Strategy& s = plan_.strategy;
  const std::int64_t cp = s.context_parallel;
  if (cp == 1) {
    if (from_.context_exchange)
      request_.problem("context_exchange", "every rank has all keys, so nothing is exchanged",
                       "set context_parallel, or leave it out");
    return;
  }
  if (!rules_.splits_context)
    request_.problem("context_parallel",
                     fmt::format("{} does not split a pack by tokens", rules_.name),
                     "engine torchtitan does; sequence_parallel of xtuner_v1 splits it by heads");
  if (s.stage_ranks() % s.ranks_of_pack() != 0)
    request_.problem("context_parallel", fmt::format("{} ranks are not divisible by {}",
                                                     s.stage_ranks(), s.ranks_of_pack()));
  if (plan_.architecture.has_mla())
    request_.problem("context_parallel",
                     fmt::format("{} does not split latent attention over ranks", rules_.name));
  if (plan_.architecture.sliding_window > 0 && s.context_exchange == ContextExchange::ring)
    request_.problem("context_exchange", "keys within windows are not modelled around a ring");
  check_context_lengths();
  check_node("context_parallel", s.ranks_of_pack(), from_.context_parallel_across_nodes,
             "keys and values");
}

// A rank takes two pieces of every sample.
void Checks::check_context_lengths() {
  const Strategy& s = plan_.strategy;
  const std::int64_t pieces = 2 * s.context_parallel;
  const auto* fixed = std::get_if<FixedLength>(&plan_.data.lengths.shape);
  if (fixed == nullptr) {
    request_.problem("context_parallel",
                     "samples of different lengths do not divide over ranks by tokens",
                     "give one sample_length");
    return;
  }
  const auto check_length = [&](std::string_view what, std::int64_t tokens) {
    if (tokens % pieces != 0)
      request_.problem("context_parallel",
                       fmt::format("{} of {} tokens are not divisible into {} pieces for {} ranks",
                                   what, tokens, pieces, s.context_parallel));
  };
  check_length("packs", s.pack_length);
  if (fixed->tokens != s.pack_length) check_length("samples", fixed->tokens);
}

void Checks::check_tensor() {
  const Strategy& s = plan_.strategy;
  const std::int64_t tp = s.tensor_parallel;
  if (tp == 1) {
    if (from_.tensor_sequence_parallel)
      request_.problem("tensor_sequence_parallel", "every rank has all of each product",
                       "set tensor_parallel, or leave it out");
    return;
  }
  if (!rules_.splits_tensors)
    request_.problem("tensor_parallel",
                     fmt::format("{} does not split products over ranks", rules_.name),
                     "engines megatron and torchtitan do");
  if (plan_.architecture.is_moe() && rules_.splits_tensors && !rules_.splits_tensors_of_experts)
    request_.problem(
        "tensor_parallel",
        fmt::format("{} is not modelled to split products of models with experts", rules_.name),
        "engine megatron is");
  if (plan_.architecture.is_moe() && !s.tensor_sequence_parallel)
    request_.problem("tensor_sequence_parallel",
                     "ranks that repeat tokens would send them to experts repeatedly",
                     "leave it out");
  if (plan_.architecture.has_mla())
    request_.problem("tensor_parallel",
                     fmt::format("{} does not split latent attention over ranks", rules_.name));
  if (plan_.architecture.has_wide_qk_norm)
    request_.problem("tensor_parallel", "norms over all heads are not modelled to be split");
  if (s.has_fp8_products && !rules_.has_transformer_engine)
    request_.problem("tensor_parallel", "products that ranks share are not modelled in fp8",
                     "engine megatron has them");
  if (s.shard_ranks != 0)
    request_.problem("shard_ranks", "parameters cannot be replicated where products are split",
                     "leave out shard_ranks, or set tensor_parallel to 1");
  check_tensor_shapes();
  check_node("tensor_parallel", tp, from_.tensor_parallel_across_nodes, "activations");
}

// What the ranks have to divide.
void Checks::check_tensor_shapes() {
  const Strategy& s = plan_.strategy;
  const Architecture& a = plan_.architecture;
  const std::int64_t tp = s.tensor_parallel;
  struct Shape {
    std::string_view what;
    std::int64_t n;
  };
  const std::int64_t shared = a.n_shared_experts * a.moe_intermediate_size;
  const std::int64_t together = s.sequence_parallel * s.context_parallel;
  for (const Shape shape :
       {Shape{"query heads", a.num_attention_heads}, Shape{"key heads", a.num_key_value_heads},
        Shape{"columns of an ffn", a.is_moe() ? 0 : a.intermediate_size},
        Shape{"columns of shared experts", shared},
        Shape{"tokens of a pack", s.tensor_sequence_parallel ? s.pack_length / together : 0}})
    if (shape.n % tp != 0)
      request_.problem("tensor_parallel",
                       fmt::format("{} {} are not divisible by {} ranks", shape.n, shape.what, tp));
  if (s.stage_ranks() % s.ranks_of_pack() != 0)
    request_.problem("tensor_parallel", fmt::format("{} ranks are not divisible by {}",
                                                    s.stage_ranks(), s.ranks_of_pack()));
}

void Checks::check_zero() {
  const Strategy& s = plan_.strategy;
  if (s.zero < rules_.least_zero || s.zero > rules_.most_zero)
    request_.problem(
        "zero",
        fmt::format("{} has stages {} to {} of ZeRO, not {}", rules_.name, rules_.least_zero,
                    rules_.most_zero, s.zero),
        "deepspeed has 1 to 3, colossalai 1 and 2, megatron_deepspeed 0, engines of FSDP 3, the "
        "others 0 and 1");
  else if (s.zero < 3 && s.compute_dtype == DType::fp32)
    request_.problem(from_.compute_dtype ? "compute_dtype" : "zero",
                     "below stage 3 weights are kept in 16 bits beside those in fp32",
                     "set compute_dtype to bf16");
  if (!s.memory_efficient_linear && (!rules_.may_keep_references || s.zero < 3))
    request_.problem("memory_efficient_linear", "only stage 3 of deepspeed may keep references",
                     "leave it out");
  if (s.zero < 3 && from_.reshard_after_forward)
    request_.problem("reshard_after_forward", "below stage 3 of ZeRO all ranks have all weights");
}

void Checks::check_shards() {
  const Strategy& s = plan_.strategy;
  if (s.stage_ranks() % s.shard_ranks != 0)
    request_.problem("shard_ranks", fmt::format("{} ranks are not divisible by {}", s.stage_ranks(),
                                                s.shard_ranks));
  if (s.shard_ranks % s.context_parallel != 0)
    request_.problem(
        "shard_ranks",
        fmt::format("{} ranks that share parameters are not divisible by {} that share "
                    "a pack",
                    s.shard_ranks, s.context_parallel));
  if (s.expert_parallel > 1)
    request_.problem("shard_ranks", "parameters cannot be replicated where experts are spread",
                     "leave out shard_ranks, or set expert_parallel to 1");
}

void Checks::check_machine() {
  const Strategy& s = plan_.strategy;
  if (s.compute_dtype == DType::int64 || s.compute_dtype == DType::int32 ||
      s.compute_dtype == DType::uint8 || s.compute_dtype == DType::fp8)
    request_.problem("compute_dtype",
                     fmt::format("not supported: computing in {}", name(s.compute_dtype)));
  else if (!plan_.profile.peak(s.compute_dtype) || !plan_.profile.peak(DType::fp32))
    request_.problem("compute_dtype", fmt::format("{} has no products in {}", plan_.machine_name,
                                                  name(s.compute_dtype)));
  check_fp8();
  check_groups();
}

void Checks::check_fp8() {
  const Strategy& s = plan_.strategy;
  if (!s.has_fp8_products) return;
  if (!plan_.profile.peak(DType::fp8) || !measured(plan_.profile, Kernel::matmul, DType::fp8))
    request_.problem("fp8_products",
                     fmt::format("{} says nothing of products in fp8", plan_.machine_name));
  if (s.compute_dtype != DType::bf16)
    request_.problem("fp8_products", fmt::format("the rest is computed in {}, must be bf16",
                                                 name(s.compute_dtype)));
}

void Checks::check_groups() {
  const auto all = static_cast<std::int32_t>(plan_.strategy.ranks);
  const auto world = static_cast<std::int32_t>(plan_.strategy.stage_ranks());
  const auto expert = static_cast<std::int32_t>(plan_.strategy.expert_parallel);
  const auto replicas = static_cast<std::int32_t>(plan_.strategy.replicas());
  const auto sequence = static_cast<std::int32_t>(plan_.strategy.sequence_parallel);
  const auto context = static_cast<std::int32_t>(plan_.strategy.context_parallel);
  const auto tensor = static_cast<std::int32_t>(plan_.strategy.tensor_parallel);
  if (expert < 1 || world % expert != 0 || replicas < 1 ||
      world % plan_.strategy.ranks_of_pack() != 0)
    return;
  for (const GroupShape group :
       {GroupShape{all, 1}, GroupShape{expert, 1}, GroupShape{world / expert, expert},
        GroupShape{replicas, world / replicas}, GroupShape{tensor, 1},
        GroupShape{world / tensor, tensor}, GroupShape{sequence, tensor},
        GroupShape{context, sequence * tensor}})
    if (!covers(plan_.profile, group)) {
      request_.problem("devices", fmt::format("{} says nothing of collectives over {} ranks",
                                              plan_.machine_name, group.size));
      return;
    }
}

}  // namespace

void check(const Plan& plan, const EngineRules& rules, Request& request) {
  Checks(plan, rules, request).run();
}

}  // namespace xt
