#pragma once

// The file `plan.json` of a plan directory: a run with everything resolved, as the planner wrote it
// and the executor reads it. The step itself is the schedule beside it, named here by its digest.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/document/reader.h"
#include "costmodel/io/files.h"
#include "costmodel/packing/packs.h"
#include "costmodel/units/dtype.h"

namespace xt {

inline constexpr std::string_view plan_schema = "xt.plan/4";
inline constexpr std::string_view plan_file_name = "plan.json";
inline constexpr std::string_view model_config_file_name = "config.json";
inline constexpr std::string_view schedule_file_name = "schedule.jsonl";
inline constexpr std::string_view predicted_file_name = "predicted.jsonl";
inline constexpr std::string_view measured_file_name = "measured.jsonl";
inline constexpr std::string_view metrics_file_name = "metrics.jsonl";

/// How the learning rate goes on after warm-up: it stays, or falls to its minimum in a straight
/// line or along half a cosine.
enum class LearningRateSchedule : std::uint8_t { constant, linear, cosine };

inline constexpr std::array<std::string_view, 3> learning_rate_schedule_names = {
    "constant", "linear", "cosine"};

/// The spellings of a schedule.
constexpr const auto& enum_names(LearningRateSchedule) { return learning_rate_schedule_names; }

/// AdamW, the clip before it, and the learning rate over steps.
struct PlanOptimizer {
  double learning_rate = 3e-4;  ///< the highest
  LearningRateSchedule learning_rate_schedule = LearningRateSchedule::constant;
  std::int64_t warmup_steps = 0;  ///< over which it rises from zero
  std::int64_t decay_steps = 0;   ///< step at which it has fallen to its minimum
  double min_learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  double weight_decay = 0.1;
  double max_grad_norm = 1.0;
  double momentum = 0.95;                   ///< of Muon, where it updates matrices
  double router_bias_update_speed = 0.001;  ///< of the bias by which a sigmoid router chooses
  double balance_loss = 0;                  ///< coefficient of the loss of unequally loaded experts

  bool operator==(const PlanOptimizer&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("learning_rate", learning_rate, "The highest learning rate").at_least(0);
    archive.field("learning_rate_schedule", learning_rate_schedule, "How it goes on");
    archive.field("warmup_steps", warmup_steps, "Steps over which it rises").at_least(0);
    archive.field("decay_steps", decay_steps, "Step at which it has fallen").at_least(0);
    archive.field("min_learning_rate", min_learning_rate, "What it falls to").at_least(0);
    archive.field("beta1", beta1, "Decay of the mean gradient").at_least(0);
    archive.field("beta2", beta2, "Decay of the mean squared gradient").at_least(0);
    archive.field("adam_eps", adam_eps, "Added to the root of the mean squared gradient");
    archive.field("weight_decay", weight_decay, "Decoupled weight decay").at_least(0);
    archive.field("max_grad_norm", max_grad_norm, "Global norm that gradients are clipped to");
    archive.field("momentum", momentum, "Decay of Muon's momentum").at_least(0);
    archive
        .field("router_bias_update_speed", router_bias_update_speed, "Of a router's bias, a step")
        .at_least(0);
    archive.field("balance_loss", balance_loss, "Coefficient of the loss of routers").at_least(0);
  }
};

/// Predicted time of one kind of communication in a step.
struct PlanTraffic {
  double total_s = 0;
  double exposed_s = 0;

  bool operator==(const PlanTraffic&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("total_s", total_s, "While it runs").at_least(0);
    archive.field("exposed_s", exposed_s, "While it runs and no compute does").at_least(0);
  }
};

/// What a run of the plan is to be compared with.
struct PlanPrediction {
  double step_time_s = 0;
  double tokens_per_device_s = 0;
  double mfu = 0;
  std::int64_t peak_memory_bytes = 0;
  Named<std::int64_t> memory_breakdown_bytes;
  Named<PlanTraffic> communication;

  bool operator==(const PlanPrediction&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("step_time_s", step_time_s, "Seconds of a step").above(0);
    archive.field("tokens_per_device_s", tokens_per_device_s, "Tokens per device and second");
    archive.field("mfu", mfu, "Model flops over peak flops");
    archive.field("peak_memory_bytes", peak_memory_bytes, "Allocated device memory of a rank");
    archive.field("memory_breakdown_bytes", memory_breakdown_bytes, "The peak by category");
    archive.field("communication", communication, "Traffic of a step by kind");
  }
};

/// The content of `plan.json`.
struct PlanFile {
  std::string schema{plan_schema};
  std::string schedule_digest;  ///< as digest_text() writes it
  std::string model_name;
  std::string model_type;
  std::int64_t vocab_size = 0;
  std::string machine_name;
  std::string profile_digest;
  std::int64_t ranks_per_device = 1;
  std::string engine;
  std::int64_t ranks = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t pack_length = 0;
  std::int64_t sample_length = 0;
  PackLevel pack_level = PackLevel::soft;
  bool groups_by_length = true;  ///< packs that run at once cost the same attention
  std::int64_t gradient_accumulation = 1;
  std::int64_t intra_layer_micro_batches = 1;
  std::int64_t sequence_parallel = 1;
  std::int64_t context_parallel = 1;
  std::int64_t tensor_parallel = 1;
  std::int64_t zero = 3;
  std::int64_t shard_ranks = 1;
  std::int64_t recompute_layers = 0;
  std::int64_t swap_layers = 0;
  std::int64_t loss_chunk = 0;
  DType compute_dtype = DType::fp32;
  PlanOptimizer optimizer;
  std::int64_t seed = 0;
  double model_flops = 0;                         ///< of a rank in one step, counted for MFU
  double peak_flops_per_s = 0;                    ///< of a rank; what MFU divides by
  std::optional<std::int64_t> host_memory_bytes;  ///< that a rank may hold; no limit if none
  std::optional<PlanPrediction> prediction;

  bool operator==(const PlanFile&) const = default;

  /// Tokens that a device brings to one step.
  double tokens_per_device() const {
    const std::int64_t packs = gradient_accumulation * intra_layer_micro_batches;
    const std::int64_t ranks_of_pack = sequence_parallel * context_parallel * tensor_parallel;
    return static_cast<double>(pack_length * packs * ranks_per_device) /
           static_cast<double>(ranks_of_pack);
  }

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of this file");
    archive.field("schedule_digest", schedule_digest, "Digest of schedule.jsonl");
    archive.field("model_name", model_name, "Model that is trained");
    archive.field("model_type", model_type, "Family of the model");
    archive.field("vocab_size", vocab_size, "Rows of the embedding").at_least(2);
    archive.field("machine_name", machine_name, "Machine that the plan is for");
    archive.field("profile_digest", profile_digest, "Digest of the machine's profile");
    archive.field("ranks_per_device", ranks_per_device, "Ranks that share a device").at_least(1);
    archive.field("engine", engine, "Engine whose step it is");
    describe_strategy(archive);
    archive.field("optimizer", optimizer, "Update rule");
    archive.field("seed", seed, "Of weights and data").at_least(0);
    archive.field("model_flops", model_flops, "Flops of a rank in one step").at_least(0);
    archive.field("peak_flops_per_s", peak_flops_per_s, "Peak of a rank").at_least(0);
    archive
        .field("host_memory_bytes", host_memory_bytes,
               "Host memory that a rank may hold: what is swapped, offloaded or copied")
        .at_least(0);
    archive.field("prediction", prediction, "What a run is compared with");
  }

 private:
  template <typename Archive>
  void describe_strategy(Archive& archive) {
    archive.field("ranks", ranks, "Ranks of the run").at_least(1);
    archive.field("expert_parallel", expert_parallel, "Ranks that share experts").at_least(1);
    archive.field("pack_length", pack_length, "Tokens of a pack").at_least(1);
    archive.field("sample_length", sample_length, "Tokens of a sample").at_least(1);
    archive.field("pack_level", pack_level, "How packs are filled");
    archive.field("groups_by_length", groups_by_length, "Whether like packs run at once");
    archive.field("gradient_accumulation", gradient_accumulation, "Micro-steps").at_least(1);
    archive.field("intra_layer_micro_batches", intra_layer_micro_batches, "Packs in lock-step")
        .at_least(1);
    archive.field("sequence_parallel", sequence_parallel, "Ranks that share a pack by heads")
        .at_least(1);
    archive.field("context_parallel", context_parallel, "Ranks that share a pack by tokens")
        .at_least(1);
    archive.field("tensor_parallel", tensor_parallel, "Ranks that share each product").at_least(1);
    archive.field("zero", zero, "Stage of ZeRO").at_least(0).at_most(3);
    archive.field("shard_ranks", shard_ranks, "Ranks that share parameters").at_least(1);
    archive.field("recompute_layers", recompute_layers, "Layers run again").at_least(0);
    archive.field("swap_layers", swap_layers, "Layers whose input is on the host").at_least(0);
    archive.field("loss_chunk", loss_chunk, "Tokens of a chunk of the loss").at_least(1);
    archive.field("compute_dtype", compute_dtype, "Type of parameters while computing");
  }
};

/// The plan that `source`, the content of a `plan.json`, describes.
///
/// Throws: InputError when it is of another format version, or with everything that is wrong in it
PlanFile parse_plan(SourceText source);

/// The plan in `directory`.
///
/// Throws: InputError as parse_plan() does, also when there is none
PlanFile read_plan(const std::filesystem::path& directory);

/// Makes `plan` the plan of `directory`, which exists.
///
/// Throws: InputError when there is one that may not be overwritten; std::system_error
void write_plan(const std::filesystem::path& directory, const PlanFile& plan, Overwrite overwrite);

}  // namespace xt
