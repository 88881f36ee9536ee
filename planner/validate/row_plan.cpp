#include "planner/validate/row_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "costmodel/models/config.h"
#include "planner/lower/engine.h"
#include "planner/validate/model_config.h"
#include "planner/validate/row_attention.h"
#include "planner/validate/row_machine.h"
#include "planner/validate/row_notes.h"
#include "planner/validate/row_offload.h"
#include "planner/validate/row_recompute.h"
#include "planner/validate/row_routing.h"
#include "planner/validate/spelling.h"
#include "planner/validate/tuned_recipe.h"

namespace xt {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

// Who priced here takes the steps of whom, and what its recipe fixes that rows do not say.
struct EngineOfFramework {
  std::string_view family;
  std::string_view framework;  // how its name begins
  std::string_view engine;
  std::int64_t sample_length;  // 0: a row's own sequences
  std::string_view loss_chunk;
  std::string_view attention_kernel;  // where a row does not name it; empty: the machine's
  bool fixes_attention = false;       // also where a row does
  bool (*applies)(const PublishedRow& row) = nullptr;  // to which rows; to all where it is none
};

// The first that fits a row counts. Megatron's attention is that of Transformer Engine; PyTorch's
// own, where a row names no kernels, is that of FlashAttention-2.
//
// Source: for XTuner V1, tests/published: packs of short samples, of about 4096 tokens;
// LLM-Foundry, scripts/train/benchmarking/submit_benchmarks.py, for Triton whatever a table says
constexpr std::array<EngineOfFramework, 20> engine_rows = {{
    {"fsdp2", "XTuner", "xtuner_v1", 4096, "1024", ""},
    {"fsdp2", "TRL", "trl", 0, "none", "flash2", false, has_whole_logits},
    {"fsdp2", "TRL", "accelerate", 0, "none", "flash2"},
    {"fsdp2", "MindSpeed", "mindspeed_fsdp", 0, "none", ""},
    {"fsdp2", "", "torchtitan", 0, "none", "flash2"},
    {"fsdp1", "LLM-Foundry", "composer", 0, "none", "triton", true},
    {"fsdp1", "ATorch", "fsdp1_autocast", 0, "none", "flash2"},
    {"fsdp1", "InternEvo", "internevo_fsdp", 0, "none", "flash2"},
    {"fsdp1", "", "fsdp1", 0, "none", "flash2"},
    {"megatron", "Megatron-DeepSpeed", "megatron_deepspeed", 0, "none", ""},
    {"megatron", "", "megatron", 0, "none", ""},
    {"megatron_fsdp", "", "megatron_fsdp", 0, "none", ""},
    {"deepspeed", "", "deepspeed", 0, "none", "flash2"},
    {"mindspeed", "", "mindspeed", 0, "none", ""},
    {"mindformers", "", "mindformers", 0, "none", ""},
    {"other", "nanotron", "nanotron", 0, "none", "flash2"},
    {"other", "InternEvo", "internevo", 0, "none", "flash2"},
    {"other", "torchtitan graph trainer", "simple_fsdp", 0, "none", "flash2"},
    {"other", "Colossal-AI", "colossalai", 0, "none", "flash2"},
    {"jax", "MaxText", "maxtext", 0, "none", "cudnn"},
}};

bool is_of(const PublishedRow& row, const EngineOfFramework& of) {
  if (row.framework_family != of.family || !has_words(row.framework, of.framework)) return false;
  return of.applies == nullptr || of.applies(row);
}

const EngineOfFramework* engine_of(const PublishedRow& row) {
  for (const EngineOfFramework& of : engine_rows)
    if (is_of(row, of)) return &of;
  return nullptr;
}

const EngineRules& rules_of(const PublishedRow& row) {
  return *engine_named(engine_of(row)->engine);
}

bool notes_say(const PublishedRow& row, std::string_view phrase) {
  return row.notes.find(phrase) != std::string::npos;
}

bool has_odd_shared_expert(const PublishedRow& row) {
  const PublishedModel& model = row.model;
  return model.is_moe() &&
         *model.shared_expert_intermediate_size % *model.moe_intermediate_size != 0;
}

bool swaps(const PublishedRow& row) { return row.model.is_moe() || rules_of(row).swaps_dense; }

bool splits(const PublishedRow& row) {
  return is_ulysses(row) ? rules_of(row).splits_sequences : rules_of(row).splits_context;
}

// Stages 2 and 3 of FSDP differ in whether layers stay gathered; other engines have stages.
bool has_stage(const PublishedRow& row) {
  const EngineRules& rules = rules_of(row);
  const std::int64_t least = rules.least_zero == 3 ? 2 : rules.least_zero;
  return row.parallel.zero >= least && row.parallel.zero <= rules.most_zero;
}

// fp32 weights and two moments; where the sharded weights are fp32 themselves, the moments alone.
double bytes_of_state(const PublishedRow& row) {
  const EngineRules& rules = rules_of(row);
  return rules.least_zero < 3 || rules.keeps_narrow_shards ? 12 : 8;
}

bool says_any(const PublishedRow& row, std::span<const std::string_view> phrases) {
  return std::ranges::any_of(phrases,
                             [&](std::string_view phrase) { return notes_say(row, phrase); });
}

constexpr std::array<std::string_view, 3> copies_phrases = {"HybridEP", "dispatcher=DeepEP",
                                                            "DeepEP dispatcher"};
constexpr std::array<std::string_view, 5> pair_phrases = {
    "EP overlap", "1F1B A2A overlap", "overlapped with compute of a second micro batch",
    "no EP overlap", "EP overlap off"};

// Whether rows are exchanged behind another micro-batch; the last phrases say that they are not.
bool overlaps_exchange(const PublishedRow& row) {
  const std::span<const std::string_view> phrases(pair_phrases);
  return says_any(row, phrases.first(3)) && !says_any(row, phrases.subspan(3));
}

// What a row has that no plan has. `what` is followed by what `of` gives, where there is one.
struct Refusal {
  std::string_view what;
  bool (*applies)(const PublishedRow& row);
  std::string (*of)(const PublishedRow& row) = nullptr;
  std::string (*says)(const PublishedRow& row) = nullptr;  // what the row has, in its own words
};

std::string name_of_engine(const PublishedRow& row) { return std::string(engine_of(row)->engine); }

std::string offload_said(const PublishedRow& row) { return fmt::format("`{}`", *row.offload); }

constexpr std::string_view no_engine = "engine", no_machine = "machine", no_model = "model";
constexpr std::string_view refused_by_checks = "refused by the checks of a plan";

constexpr std::array<Refusal, 21> refusals = {{
    {no_engine, [](const PublishedRow& row) { return engine_of(row) == nullptr; },
     [](const PublishedRow& row) { return row.framework_family; },
     [](const PublishedRow& row) { return fmt::format("`{}`", row.framework); }},
    {"pipeline parallelism",
     [](const PublishedRow& row) { return row.parallel.pp > 1 && !rules_of(row).has_pipelines; },
     nullptr, name_of_engine},
    {"a pipeline of so many micro-batches as nobody says",
     [](const PublishedRow& row) { return row.parallel.pp > 1 && !row.global_batch_size; }},
    {"tensor parallelism",
     [](const PublishedRow& row) { return row.parallel.tp > 1 && !rules_of(row).splits_tensors; },
     nullptr, name_of_engine},
    {"tensor parallelism of experts", [](const PublishedRow& row) { return row.parallel.etp > 1; }},
    {"context parallelism",
     [](const PublishedRow& row) { return row.parallel.cp > 1 && !splits(row); }, nullptr,
     name_of_engine},
    {"stage of ZeRO", [](const PublishedRow& row) { return !has_stage(row); }, nullptr,
     [](const PublishedRow& row) {
       return fmt::format("{} has no stage {}", name_of_engine(row), row.parallel.zero);
     }},
    {"exchange of rows behind another micro-batch",
     [](const PublishedRow& row) {
       return overlaps_exchange(row) && !rules_of(row).pairs_micro_steps;
     }},
    {"products of weight gradients behind another exchange",
     [](const PublishedRow& row) { return notes_say(row, "delayed wgrad"); }},
    {"sliding windows",
     [](const PublishedRow& row) {
       const std::string_view type = model_type(row.model);
       return row.model.sliding_window && type != "gpt_oss" && type != "olmo3" && type != "mistral";
     }},
    {no_model,
     [](const PublishedRow& row) {
       return std::ranges::find(families(), model_type(row.model), &Family::model_type) ==
              families().end();
     },
     [](const PublishedRow& row) { return std::string(model_type(row.model)); }},
    {"a shared expert of another width", has_odd_shared_expert},
    {"a shape that its family cannot have",
     [](const PublishedRow& row) { return !misshape(row).empty(); }, nullptr, misshape},
    {"selective recompute", [](const PublishedRow& row) { return !recompute_of(row); }, nullptr,
     [](const PublishedRow& row) { return fmt::format("`{}`", *row.recompute_detail); }},
    {"optimizer state of other than AdamW's bytes",
     [](const PublishedRow& row) {
       const double usual = bytes_of_state(row);
       return row.optimizer_state_bytes_per_param.value_or(usual) != usual;
     },
     nullptr,
     [](const PublishedRow& row) {
       return fmt::format("{} bytes, of {} of {}", *row.optimizer_state_bytes_per_param,
                          bytes_of_state(row), name_of_engine(row));
     }},
    {"offload of other than inputs of layers, or optimizer and weights",
     [](const PublishedRow& row) { return !offload_of(row); }, nullptr, offload_said},
    {"an update on the host",
     [](const PublishedRow& row) {
       return offload_of(row)->of_optimizer && !rules_of(row).updates_on_host;
     },
     nullptr, name_of_engine},
    {"offload without full recompute",
     [](const PublishedRow& row) {
       return offload_of(row)->of_inputs && row.recompute != PublishedRecompute::full;
     },
     nullptr, offload_said},
    {"offload of dense models",
     [](const PublishedRow& row) { return offload_of(row)->of_inputs && !swaps(row); }, nullptr,
     name_of_engine},
    {"chunks of the loss that a compiler batches in part",
     [](const PublishedRow& row) { return notes_say(row, "gradient logits stays batched"); }},
    {"an ffn in tiles",
     [](const PublishedRow& row) { return notes_say(row, "MLP computed in tiles"); }},
}};

std::string text(const Refusal& refusal, const PublishedRow& row) {
  return refusal.of == nullptr ? std::string(refusal.what)
                               : fmt::format("{} {}", refusal.what, refusal.of(row));
}

std::int64_t gradient_accumulation(const PublishedRow& row) {
  if (!row.global_batch_size) return 1;
  const std::int64_t micro_step = row.micro_batch_size * row.parallel.data_parallel();
  return std::max<std::int64_t>(1, *row.global_batch_size / micro_step);
}

// Tokens whose loss a rank computes in one micro-step.
std::int64_t loss_tokens(const PublishedRow& row) {
  return row.seq_len * row.micro_batch_size / row.parallel.cp;
}

// Liger computes the loss in chunks as large as a hidden state is to its logits.
//
// Source: Liger-Kernel, ops/fused_linear_cross_entropy.py
std::int64_t liger_chunk(const PublishedRow& row) {
  const auto ratio_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t tokens = loss_tokens(row);
  const std::int64_t chunks = ratio_up(row.model.vocab_size, row.model.hidden_size);
  const auto least = static_cast<std::uint64_t>(ratio_up(tokens, chunks));
  return static_cast<std::int64_t>(std::bit_ceil(least));
}

constexpr std::array<std::string_view, 3> chunk_phrases = {
    "cross entropy in chunks", "cross entropy in 8 chunks", "chunked loss"};

// The loss has no field: where it is not whole, the notes say so. TRL takes few tokens at once,
// torchtitan an eighth of all.
//
// Source: TRL, trainer/sft_trainer.py, _CHUNKED_LM_HEAD_CHUNK_SIZE; torchtitan, components/loss.py
std::string loss_chunk(const PublishedRow& row, const EngineOfFramework& of) {
  constexpr std::int64_t default_chunks = 8, tokens_of_trl = 256;
  if (uses_liger(row)) return std::to_string(liger_chunk(row));
  if (!says_any(row, chunk_phrases) || notes_say(row, "undoes the loss chunking"))
    return std::string(of.loss_chunk);
  const bool is_of_trl = has_words(row.framework, "TRL");
  return std::to_string(is_of_trl ? tokens_of_trl : loss_tokens(row) / default_chunks);
}

// The dtype in which gradients are reduced has no field either.
std::optional<std::string> reduce_dtype(const PublishedRow& row) {
  constexpr std::array<std::string_view, 2> fp32_phrases = {"mixed precision DEFAULT",
                                                            "fp32 reduction"};
  constexpr std::array<std::string_view, 3> bf16_phrases = {"bf16 gradients and reductions",
                                                            "gradients and reductions in compute",
                                                            "gradients reduced in bf16"};
  if (says_any(row, fp32_phrases)) return "fp32";
  if (says_any(row, bf16_phrases)) return "bf16";
  return std::nullopt;
}

// How the packs of a row's step are made.
Flags data_flags(const PublishedRow& row, const EngineOfFramework& of) {
  const std::int64_t sample = of.sample_length == 0 ? row.seq_len : of.sample_length;
  return {{"pack_length", std::to_string(row.seq_len * row.micro_batch_size)},
          {"sample_length", std::to_string(std::min(sample, row.seq_len))},
          {"gradient_accumulation", std::to_string(gradient_accumulation(row))}};
}

// How a row's step is spread over ranks.
Flags layout_flags(const PublishedRow& row, const Profile& profile) {
  const PublishedParallel& parallel = row.parallel;
  const std::int64_t devices = row.devices / dies_of_row(row, profile);
  const std::int64_t ranks = devices * profile.ranks_per_device;
  Flags flags = {{"devices", std::to_string(devices)},
                 {"expert_parallel", std::to_string(parallel.ep)},
                 {"expert_parallel_across_nodes", "true"},
                 {"pipeline_parallel", std::to_string(parallel.pp)},
                 {"virtual_stages", std::to_string(parallel.vpp)},
                 {"tensor_parallel", std::to_string(parallel.tp)},
                 {"tensor_parallel_across_nodes", "true"}};
  const bool has_stages = rules_of(row).least_zero < 3;
  if (has_stages)
    flags.emplace_back("zero", std::to_string(parallel.zero));
  else if (parallel.pp == 1)
    flags.emplace_back("reshard_after_forward", parallel.zero == 3 ? "true" : "false");
  if (parallel.tp > 1)
    flags.emplace_back("tensor_sequence_parallel",
                       parallel.sequence_parallel.value_or(true) ? "true" : "false");
  if (parallel.cp > 1 && is_ulysses(row)) {
    flags.emplace_back("sequence_parallel", std::to_string(parallel.cp));
    flags.emplace_back("sequence_parallel_across_nodes", "true");
  } else if (parallel.cp > 1) {
    flags.emplace_back("context_parallel", std::to_string(parallel.cp));
    flags.emplace_back("context_parallel_across_nodes", "true");
    flags.emplace_back("context_exchange", "ring");
  }
  if (parallel.dp_replicate > 1 && !has_stages)
    flags.emplace_back("shard_ranks", std::to_string(ranks / parallel.dp_replicate));
  if (state_ranks(row) > 0) flags.emplace_back("shard_ranks", std::to_string(state_ranks(row)));
  const bool sends_copies = has_words(row.framework, "DeepEP") || says_any(row, copies_phrases) ||
                            sends_copies_by_recipe(row);
  if (const double imbalance = routing_imbalance(row); imbalance > 1)
    flags.emplace_back("routing_imbalance", fmt::format("{:.3f}", imbalance));
  if (overlaps_exchange(row)) flags.emplace_back("expert_parallel_overlap", "true");
  if (overlaps_nothing(row)) flags.emplace_back("communication_overlap", "false");
  if (parallel.ep > 1 && sends_copies) flags.emplace_back("dispatch", "deep_ep");
  return flags;
}

// Empty for the machine's.
std::string attention_kernel(const PublishedRow& row, const EngineOfFramework& of,
                             const Profile& profile) {
  if (has_unfused_attention(row)) return std::string(unfused_attention);
  if (attention_libraries(profile).empty()) return {};
  if (of.fixes_attention) return std::string(of.attention_kernel);
  if (!row.attention && attends_by_transformer_engine(row)) return {};
  return attention_library(row).value_or(std::string(of.attention_kernel));
}

Flags flags_of(const PublishedRow& row, const EngineOfFramework& of, const Profile& profile) {
  Flags flags = {{"engine", std::string(of.engine)},
                 {"compute_dtype", row.precision == "fp16" ? "fp16" : "bf16"},
                 {"fp8_products", row.has_fp8() ? "true" : "false"},
                 {"recompute", *recompute_of(row)},
                 {"swap", offload_of(row)->of_inputs ? "all" : "none"},
                 {"loss_chunk", loss_chunk(row, of)}};
  if (offload_of(row)->of_optimizer) flags.emplace_back("offload_optimizer", "true");
  if (offload_of(row)->of_parameters) flags.emplace_back("offload_parameters", "true");
  const std::string kernel = attention_kernel(row, of, profile);
  if (!kernel.empty()) flags.emplace_back("attention_kernel", kernel);
  const Flags tuned = rules_of(row).has_transformer_engine ? tuned_recipe(row) : Flags();
  const bool has_reduce_dtype =
      std::ranges::any_of(tuned, [](const auto& flag) { return flag.first == "reduce_dtype"; });
  flags.insert(flags.end(), tuned.begin(), tuned.end());
  if (const auto dtype = reduce_dtype(row); dtype && !has_reduce_dtype)
    flags.emplace_back("reduce_dtype", *dtype);
  if (const std::string_view share = offload_of(row)->of_chunks; !share.empty())
    flags.emplace_back("offload_share", std::string(share));
  if (const auto ops = dropped_ops(row)) flags.emplace_back("recompute_ops", *ops);
  const EngineRules& rules = *engine_named(of.engine);
  if (rules.recomputes_to_end && stops_recompute_early(row))
    flags.emplace_back("recompute_early_stop", "true");
  const bool is_eager_at_rest = rules.has_eager_kernels && rules.keeps_narrow_shards;
  const bool is_fused = row.compile.value_or(!is_eager_at_rest) || uses_liger(row);
  if (rules.has_eager_kernels && !is_fused) flags.emplace_back("compile", "false");
  if (notes_say(row, "experts by grouped_mm on gathered"))
    flags.emplace_back("fused_experts", "false");
  for (const Flags& more : {data_flags(row, of), layout_flags(row, profile), flags_of_notes(row)})
    flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

RowPlan plan_of(const PublishedRow& row, const Profiles& profiles) {
  const auto profile = profiles.find(profile_name(row));
  if (profile == profiles.end()) return {{}, fmt::format("{} {}", no_machine, row.machine)};
  if (const std::string detail = misfit(row, profile->second); !detail.empty())
    return {{}, std::string(machine_misfit), detail};
  for (const Refusal& refusal : refusals)
    if (refusal.applies(row))
      return {{}, text(refusal, row), refusal.says == nullptr ? "" : refusal.says(row)};
  try {
    const ModelConfig config = model_config(row.model, row.seq_len, has_unfused_attention(row));
    Request request(std::nullopt, flags_of(row, *engine_of(row), profile->second));
    return {resolve(request, Subject{row.model.name, config.architecture, profile->first,
                                     machine_of_row(profile->second, row)})};
  } catch (const InputError& error) {
    return {{}, std::string(refused_by_checks), headline(error.problems().front())};
  }
}

std::vector<std::string> unsupported_reasons() {
  std::vector<std::string> reasons = {std::string(refused_by_checks), std::string(machine_misfit)};
  for (const Refusal& refusal : refusals)
    if (refusal.of == nullptr) reasons.emplace_back(refusal.what);
  for (const std::string_view family : framework_families)
    reasons.push_back(fmt::format("{} {}", no_engine, family));
  for (const std::string_view type : model_types())
    reasons.push_back(fmt::format("{} {}", no_model, type));
  for (const std::string_view machine : published_machines)
    reasons.push_back(fmt::format("{} {}", no_machine, machine));
  return reasons;
}

}  // namespace xt
