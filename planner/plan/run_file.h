#pragma once

// What a user writes: a run file, and flags that override it. Every field may be absent from
// either; what is absent from both takes the default that resolve() documents.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/document/reader.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/models/config_limits.h"
#include "costmodel/models/decoder.h"
#include "costmodel/packing/length_distribution.h"
#include "costmodel/packing/packs.h"
#include "planner/plan/choice.h"
#include "planner/strategy.h"

namespace xt {

/// Whose step it is, and tokens of a pack, where nothing is said.
inline constexpr std::string_view default_engine = "xt_run";
inline constexpr std::int64_t default_pack_length = 4096;
/// The attention_kernel that keeps scores as tensors.
inline constexpr std::string_view unfused_attention = "unfused";
/// The most micro-steps of a step.
inline constexpr std::int64_t most_accumulation = 1024;

/// Fields of a run file (schema xt.run/1). Flags have the same names in kebab-case.
struct RunFile {
  std::optional<std::string> schema;
  std::optional<std::string> model;
  std::optional<std::int64_t> further_tokens;
  std::optional<std::string> machine;
  std::optional<std::string> overlay;
  std::optional<std::string> engine;
  std::optional<DType> compute_dtype;
  std::optional<bool> fp8_products;
  std::optional<Fp8Recipe> fp8_recipe;
  std::optional<bool> fp8_param_gather;
  std::optional<DType> reduce_dtype;
  std::optional<std::int64_t> reduce_bucket;
  std::optional<bool> compile;
  std::optional<bool> compile_loss;
  std::optional<bool> fused_experts;
  std::optional<std::string> attention_kernel;
  std::optional<std::int64_t> devices;
  std::optional<std::int64_t> expert_parallel;
  std::optional<bool> expert_parallel_across_nodes;
  std::optional<bool> expert_parallel_overlap;
  std::optional<Dispatch> dispatch;
  std::optional<double> routing_imbalance;
  std::optional<std::int64_t> sequence_parallel;
  std::optional<bool> sequence_parallel_across_nodes;
  std::optional<std::int64_t> context_parallel;
  std::optional<ContextExchange> context_exchange;
  std::optional<bool> context_parallel_across_nodes;
  std::optional<std::int64_t> tensor_parallel;
  std::optional<bool> tensor_sequence_parallel;
  std::optional<bool> tensor_parallel_across_nodes;
  std::optional<bool> tensor_parallel_overlap;
  std::optional<bool> communication_overlap;
  std::optional<std::int64_t> pipeline_parallel;
  std::optional<std::int64_t> virtual_stages;
  std::optional<ChunkOrder> pipeline_schedule;
  std::optional<std::vector<std::int64_t>> pipeline_layers;
  std::optional<double> offload_share;
  std::optional<std::int64_t> zero;
  std::optional<std::int64_t> shard_ranks;
  std::optional<bool> reshard_after_forward;
  std::optional<bool> memory_efficient_linear;
  std::optional<bool> return_logits;
  std::optional<std::int64_t> pack_length;
  std::optional<LengthDistribution> sample_length;
  std::optional<std::string> sample_lengths;
  std::optional<PackLevel> pack_level;
  std::optional<bool> group_by_length;
  std::optional<std::int64_t> gradient_accumulation;
  std::optional<std::int64_t> intra_layer_micro_batches;
  std::optional<Choice> recompute;
  std::optional<RecomputeOps> recompute_ops;
  std::optional<bool> recompute_early_stop;
  std::optional<Choice> swap;
  std::optional<Optimizer> optimizer;
  std::optional<bool> swap_optimizer;
  std::optional<bool> offload_optimizer;
  std::optional<bool> offload_parameters;
  std::optional<Choice> loss_chunk;
  std::optional<double> learning_rate;
  std::optional<LearningRateSchedule> learning_rate_schedule;
  std::optional<std::int64_t> warmup_steps;
  std::optional<std::int64_t> decay_steps;
  std::optional<double> min_learning_rate;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> adam_eps;
  std::optional<double> weight_decay;
  std::optional<double> max_grad_norm;
  std::optional<double> momentum;
  std::optional<double> router_bias_update_speed;
  std::optional<double> balance_loss;
  std::optional<std::int64_t> seed;
  std::optional<double> train_tokens;
  std::optional<double> device_hour_price;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of the file").one_of(std::array{"xt.run/1"});
    describe_step(archive);
    describe_optimizer(archive);
  }

  /// The fields that `flags` set, the rest from `file`.
  static RunFile merged(const RunFile& file, const RunFile& flags);

 private:
  template <typename Archive>
  void describe_context(Archive& archive) {
    archive
        .field("context_parallel", context_parallel,
               "Ranks that share a pack by tokens (default 1)")
        .at_least(1)
        .at_most(1'000'000);
    archive.field("context_exchange", context_exchange,
                  "all_gather collects keys and values before attention, ring passes them on while "
                  "it runs (default all_gather)");
    archive.field("context_parallel_across_nodes", context_parallel_across_nodes,
                  "true allows keys and values to be exchanged between nodes");
  }
  template <typename Archive>
  void describe_tensor(Archive& archive) {
    archive.field("tensor_parallel", tensor_parallel, "Ranks that share each product (default 1)")
        .at_least(1)
        .at_most(1'000'000);
    archive.field("tensor_sequence_parallel", tensor_sequence_parallel,
                  "false: those ranks repeat norms and residuals of all tokens (default true)");
    archive.field("tensor_parallel_across_nodes", tensor_parallel_across_nodes,
                  "true allows activations to be exchanged between nodes");
    archive.field("tensor_parallel_overlap", tensor_parallel_overlap,
                  "true: those ranks exchange in pieces, beside products (default false)");
    archive.field("communication_overlap", communication_overlap,
                  "false: exchanges run beside nothing; whole gradients are reduced, and weights "
                  "gathered, when a step's products are through (default true)");
    archive
        .field("zero", zero,
               "What data-parallel ranks split: 0 nothing, 1 optimizer state, 2 and gradients, 3 "
               "and weights (default: the most of the engine)")
        .at_least(0)
        .at_most(3);
  }
  template <typename Archive>
  void describe_pipeline(Archive& archive) {
    archive
        .field("pipeline_parallel", pipeline_parallel,
               "Stages of layers that micro-steps go through one behind the other (default 1)")
        .at_least(1)
        .at_most(1024);
    archive
        .field("virtual_stages", virtual_stages,
               "Chunks of layers of a stage, interleaved with those of the others (default 1)")
        .at_least(1)
        .at_most(1024);
    archive.field("pipeline_schedule", pipeline_schedule,
                  "1f1b, or zero_bubble: gradients of weights are found where stages would wait "
                  "(default 1f1b)");
    archive
        .field("pipeline_layers", pipeline_layers,
               "Layers of each part of the model, in its order: part i is chunk i / stages of "
               "stage i mod stages (default: the engine's own cut)")
        .at_least(0)
        .at_most(ConfigLimits::layers);
    archive
        .field("offload_share", offload_share,
               "Of the bytes that a chunk keeps, this share waits in host memory for its backward "
               "pass (default 0)")
        .at_least(0)
        .at_most(1);
  }
  template <typename Archive>
  void describe_step(Archive& archive) {
    archive.field("model", model, "Name in configs/models, or a config.json");
    archive
        .field("further_tokens", further_tokens,
               "Tokens predicted beyond the next one, each by a layer of its own (default: the "
               "num_nextn_predict_layers of the model's file)")
        .at_least(0)
        .at_most(ConfigLimits::further_tokens);
    archive.field("machine", machine, "Name in profiles, or a profile");
    archive.field("overlay", overlay, "Calibration to lay over the machine's profile");
    archive.field("engine", engine,
                  "Whose step it is, one of `xt-plan list engines` (default xt_run)");
    archive.field("compute_dtype", compute_dtype, "fp32, bf16 or fp16 (default: the engine's)");
    archive.field("fp8_products", fp8_products,
                  "true: linear layers and experts multiply, and are gathered, in fp8");
    archive.field("fp8_recipe", fp8_recipe,
                  "Scales of fp8 where the engine has several: delayed, tensorwise or blockwise "
                  "(default delayed)");
    archive.field("fp8_param_gather", fp8_param_gather,
                  "true: weights of fp8 products are kept and gathered in fp8, not in 16 bits");
    archive.field("reduce_dtype", reduce_dtype,
                  "Of gradients when they are reduced: bf16 or fp32 (default: the engine's)");
    archive
        .field("reduce_bucket", reduce_bucket,
               "Elements of the buffer in which gradients are put together for their reduction "
               "(default: the engine's, where it has one)")
        .at_least(1)
        .at_most(4'000'000'000);
    archive.field("recompute_early_stop", recompute_early_stop,
                  "true: layers run again up to the last op that their backward pass reads "
                  "(default: the engine's)");
    archive.field("compile", compile,
                  "false: norms, rotary angles and activations run op by op (default true)");
    archive.field(
        "compile_loss", compile_loss,
        "true: the loss is compiled too, or a kernel of Liger on accelerate and deepspeed, "
        "and no logits are widened in memory (default false)");
    archive.field("fused_experts", fused_experts,
                  "false: rows of experts are gathered, activated, weighted and summed op by op "
                  "(default true)");
    archive.field(
        "attention_kernel", attention_kernel,
        "Library of attention, such as flash2, flash3 or cudnn; unfused keeps scores as tensors "
        "(default: the machine's)");
    archive.field("devices", devices, "Packages, each with the ranks of its profile (default 1)")
        .at_least(1)
        .at_most(1'000'000);
    archive
        .field("expert_parallel", expert_parallel, "Ranks that share a layer's experts (default 1)")
        .at_least(1)
        .at_most(1'000'000);
    archive.field("expert_parallel_across_nodes", expert_parallel_across_nodes,
                  "true allows experts to be spread over nodes");
    archive.field("expert_parallel_overlap", expert_parallel_overlap,
                  "true: a micro-step runs forward while an earlier one runs backward, and rows "
                  "are exchanged behind the other's products (default false)");
    archive.field(
        "dispatch", dispatch,
        "all_to_all sends a row per expert, deep_ep a token per rank, agrs gathers all tokens "
        "(default all_to_all)");
    archive
        .field("routing_imbalance", routing_imbalance,
               "Rows of the fullest rank over the mean of the ranks (default 1)")
        .at_least(1.0);
    archive
        .field("sequence_parallel", sequence_parallel,
               "Ranks that share a pack by heads: Ulysses (default 1)")
        .at_least(1)
        .at_most(1'000'000);
    archive.field("sequence_parallel_across_nodes", sequence_parallel_across_nodes,
                  "true allows a pack to be spread over nodes");
    describe_context(archive);
    describe_tensor(archive);
    describe_pipeline(archive);
    archive
        .field("shard_ranks", shard_ranks,
               "Ranks that share parameters, repeated: HSDP (default all)")
        .at_least(1)
        .at_most(2'000'000);
    archive.field("reshard_after_forward", reshard_after_forward,
                  "false: layers stay gathered until their backward (default true)");
    archive.field("memory_efficient_linear", memory_efficient_linear,
                  "false: products keep what was gathered until their backward pass, though it is "
                  "gathered again (default true)");
    archive.field("return_logits", return_logits,
                  "true: a model gives logits in fp32 beside those of its loss (default false)");
    archive.field("pack_length", pack_length, "Tokens of one pack (default 4096)")
        .at_least(2)
        .at_most(16'777'216);
    archive.field("sample_length", sample_length,
                  "Tokens of a sample, or lognormal(MEDIAN, SIGMA) (default: the pack's)");
    archive.field("sample_lengths", sample_lengths,
                  "File of lengths: .jsonl with num_tokens, .idx of tokens, or .json with "
                  "[[tokens, count], ...]");
    archive.field("pack_level", pack_level,
                  "soft keeps samples whole, hard cuts (default soft; xt_run: hard)");
    archive.field("group_by_length", group_by_length,
                  "Packs that run at once have equal attention cost (default true)");
    archive
        .field("gradient_accumulation", gradient_accumulation, "Micro-steps of a step (default 1)")
        .at_least(1)
        .at_most(most_accumulation);
    archive
        .field("intra_layer_micro_batches", intra_layer_micro_batches,
               "Packs that go through each layer in lock-step: Domino (default 1)")
        .at_least(1)
        .at_most(16);
    archive.field("recompute", recompute, "none, all or so many layers (default all)");
    archive.field(
        "recompute_ops", recompute_ops,
        "Of those layers: all, or norms, activations, attention, products, experts, "
        "every_second_product, layer_norms, ffn, expert_products joined by + (default all)");
    archive.field("swap", swap, "none, all, auto or so many layers (default none)");
    archive.field("optimizer", optimizer,
                  "adamw, or muon for the matrices of layers (default adamw)");
    archive.field("swap_optimizer", swap_optimizer,
                  "true: AdamW's moments wait in host memory (default false)");
    archive.field("offload_optimizer", offload_optimizer,
                  "true: the host keeps weights and moments in fp32 and updates (default false)");
    archive.field("offload_parameters", offload_parameters,
                  "true: 16-bit shards of weights wait there too (default false)");
    archive.field("loss_chunk", loss_chunk, "none, auto or so many tokens (default auto)");
  }
  template <typename Archive>
  void describe_learning_rate(Archive& archive) {
    archive.field("learning_rate", learning_rate, "The highest (default 3e-4)").above(0);
    archive.field("learning_rate_schedule", learning_rate_schedule,
                  "After warm-up: constant, or linear or cosine down to the minimum (default "
                  "constant)");
    archive
        .field("warmup_steps", warmup_steps,
               "Steps over which the learning rate rises from zero (default 0)")
        .at_least(0);
    archive
        .field("decay_steps", decay_steps,
               "Step at which a linear or cosine schedule is at its minimum")
        .at_least(1);
    archive.field("min_learning_rate", min_learning_rate, "What it falls to (default 0)")
        .at_least(0);
  }
  template <typename Archive>
  void describe_optimizer(Archive& archive) {
    describe_learning_rate(archive);
    archive.field("beta1", beta1, "Of AdamW (default 0.9)").at_least(0).at_most(1);
    archive.field("beta2", beta2, "Of AdamW (default 0.95)").at_least(0).at_most(1);
    archive.field("adam_eps", adam_eps, "Of AdamW (default 1e-8)").above(0);
    archive.field("weight_decay", weight_decay, "Of AdamW, decoupled (default 0.1)").at_least(0);
    archive
        .field("max_grad_norm", max_grad_norm,
               "Global norm that gradients are clipped to (default 1)")
        .above(0);
    archive.field("momentum", momentum, "Of Muon (default 0.95)").at_least(0).at_most(1);
    archive
        .field("router_bias_update_speed", router_bias_update_speed,
               "How far a router's bias moves in a step (default 0.001)")
        .at_least(0);
    archive
        .field("balance_loss", balance_loss,
               "Coefficient of the loss of unequally loaded experts (default 0: without)")
        .at_least(0);
    archive.field("seed", seed, "Of weights and data (default 0)").at_least(0);
    archive
        .field("train_tokens", train_tokens,
               "Tokens of the whole run: answers say how long it takes (default: they do not)")
        .above(0)
        .at_most(1e18);
    archive
        .field("device_hour_price", device_hour_price,
               "Of a device, in any currency: answers say what the whole run costs")
        .above(0)
        .at_most(1e9);
  }
};

/// A run file and flags, read and merged, with where each field came from.
class Request {
 public:
  /// `flags` by field name, as typed.
  ///
  /// Throws: InputError with every problem of both
  Request(const std::optional<std::filesystem::path>& file,
          const std::vector<std::pair<std::string, std::string>>& flags);

  /// The same request with `flags` in the place of what file and flags say of their fields.
  ///
  /// Throws: InputError with every problem of `flags`
  Request with(const std::vector<std::pair<std::string, std::string>>& flags) const;

  const RunFile& fields() const { return fields_; }
  /// The same request for other fields, without problems so far.
  Request with(const RunFile& fields) const;
  /// The text of the run file; empty without one.
  const std::string& file_text() const { return file_.source.text; }

  /// Reports a problem with `field`, or with one value of it ("pipeline_layers[2]"), at the flag or
  /// the line that set it.
  void problem(std::string_view field, std::string message, std::string hint = {});
  const std::vector<Diagnostic>& problems() const { return problems_; }
  /// Throws: InputError with all problems reported, if there are any
  void finish() const;

 private:
  RunFile read_flags(const Document& flags);

  Document file_;
  Document flags_;
  RunFile fields_;
  std::vector<Diagnostic> problems_;
};

}  // namespace xt
