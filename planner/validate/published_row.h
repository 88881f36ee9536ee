#pragma once

// A published training step: what was run, on what, and what was measured, as its source printed
// it. The form is `published_measurements/1` (see tests/published); nothing here is computed.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/document/reader.h"

namespace xt {

inline constexpr std::array<std::string_view, 1> published_schemas = {"published_measurements/1"};

/// Machines as rows name them.
inline constexpr std::array<std::string_view, 13> published_machines = {
    "a100_40g_sxm",  "a100_80g_sxm", "a100_80g_pcie", "a800_80g_sxm", "h100_sxm",
    "h100_96g_meta", "h800_sxm",     "h200_sxm",      "b200",         "gb200",
    "gb300",         "ascend_910b",  "ascend_a3_die"};
/// A device of two dies, each of which is a rank.
inline constexpr std::string_view two_die_package = "ascend_a3_package";
/// Such a die, where a row counts dies.
inline constexpr std::string_view one_die = "ascend_a3_die";

/// Frameworks by how they split a model.
inline constexpr std::array<std::string_view, 9> framework_families = {
    "fsdp1",     "fsdp2",       "megatron", "megatron_fsdp", "deepspeed",
    "mindspeed", "mindformers", "jax",      "other"};

/// Formats of the large matrix products.
inline constexpr std::array<std::string_view, 9> published_precisions = {
    "bf16",        "fp16",          "fp8_delayed", "fp8_current_scaling", "fp8_tensorwise",
    "fp8_rowwise", "fp8_blockwise", "fp8_mx",      "fp8_unstated"};

/// Which layers compute their forward again.
enum class PublishedRecompute : std::uint8_t { none, full, selective };
inline constexpr std::array<std::string_view, 3> published_recompute_names = {"none", "full",
                                                                              "selective"};
/// The spellings of what rows choose from.
constexpr const auto& enum_names(PublishedRecompute) { return published_recompute_names; }

/// How tokens spread over experts: equally by force, or as the router chose.
enum class MoeBalance : std::uint8_t { forced, natural };
inline constexpr std::array<std::string_view, 2> moe_balance_names = {"forced", "natural"};
constexpr const auto& enum_names(MoeBalance) { return moe_balance_names; }

/// What a peak of memory counts: live tensors, what the allocator holds, what the device has lost.
enum class MemoryKind : std::uint8_t { allocated, reserved, device };
inline constexpr std::array<std::string_view, 3> memory_kind_names = {"allocated", "reserved",
                                                                      "device"};
constexpr const auto& enum_names(MemoryKind) { return memory_kind_names; }

/// What a row may be held against.
enum class Use : std::uint8_t { time, memory, oom };
inline constexpr std::array<std::string_view, 3> use_names = {"time", "memory", "oom"};
constexpr const auto& enum_names(Use) { return use_names; }

/// Where a row is printed.
struct PublishedSource {
  std::string title, url, date;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("title", title, "What it is");
    archive.field("url", url, "Where it is");
    archive.field("date", date, "When it was measured, or published");
  }
};

/// A model, under the names of Hugging Face's configurations.
struct PublishedModel {
  std::string name;
  std::int64_t num_hidden_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;    ///< of latent attention: both parts of a query
  std::int64_t vocab_size = 0;  ///< as trained with
  bool gated_mlp = true;        ///< three matrices
  bool tie_word_embeddings = false;
  std::optional<std::string> position;
  std::optional<std::int64_t> num_experts, num_experts_per_tok, moe_intermediate_size;
  std::optional<std::int64_t> shared_expert_intermediate_size, first_k_dense_replace;
  std::optional<std::int64_t> q_lora_rank, kv_lora_rank;
  std::optional<std::int64_t> qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  std::optional<std::int64_t> sliding_window, mtp_layers;

  bool is_moe() const { return num_experts.value_or(0) > 0; }

  template <typename Archive>
  void describe(Archive& archive);
  void check(Reader& reader) const;

 private:
  template <typename Archive>
  void describe_experts(Archive& archive);
};

/// How a step is spread over devices.
struct PublishedParallel {
  std::int64_t dp_shard = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t tp = 1;
  std::optional<bool> sequence_parallel;  ///< of tensor parallelism
  std::int64_t pp = 1;
  std::int64_t vpp = 1;  ///< model chunks of a pipeline rank
  std::int64_t cp = 1;   ///< context parallel, or Ulysses
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t zero = 0;

  std::int64_t data_parallel() const { return dp_shard * dp_replicate; }
  auto operator<=>(const PublishedParallel&) const = default;

  template <typename Archive>
  void describe(Archive& archive);
};

/// What was measured.
struct PublishedMeasured {
  std::optional<double> tokens_per_device_s, step_time_s;
  std::optional<double> tflops_per_device, mfu;
  std::optional<std::string> mfu_convention;
  std::optional<double> mfu_peak_tflops;
  std::optional<std::int64_t> peak_memory_bytes;
  std::optional<MemoryKind> memory_kind;
  std::optional<bool> oom;

  template <typename Archive>
  void describe(Archive& archive);
};

/// One row.
struct PublishedRow {
  std::string id;
  PublishedSource source;
  std::string tier;
  std::string machine;
  std::int64_t devices = 1;
  std::int64_t devices_per_node = 1;
  std::optional<double> scale_out_gbit_s_per_device;
  std::string network_note;
  std::string framework;
  std::string framework_family;
  PublishedModel model;
  std::int64_t seq_len = 1;           ///< of a whole sequence
  std::int64_t micro_batch_size = 1;  ///< sequences of a data-parallel rank in one forward pass
  std::optional<std::int64_t> global_batch_size;
  PublishedParallel parallel;
  std::string precision;
  std::optional<double> optimizer_state_bytes_per_param;
  PublishedRecompute recompute = PublishedRecompute::none;
  std::optional<std::string> recompute_detail;
  std::optional<bool> compile;
  std::optional<std::string> offload;
  std::optional<MoeBalance> moe_balance;
  std::optional<std::string> attention;
  PublishedMeasured measured;
  std::vector<Use> usable_for;
  std::string notes;
  std::optional<Node> simumax;  ///< what another simulator says, beside

  bool is_usable_for(Use use) const;
  bool has_fp8() const { return precision.starts_with("fp8"); }
  /// The source, as ids name it: what stands before the last dash.
  std::string group() const { return id.substr(0, id.rfind('-')); }
  /// Tokens that a device consumes per second, printed or from the step's time and batch.
  std::optional<double> tokens_per_device_s() const;

  template <typename Archive>
  void describe(Archive& archive);
  void check(Reader& reader) const;

 private:
  template <typename Archive>
  void describe_step(Archive& archive);
  template <typename Archive>
  void describe_outcome(Archive& archive);
  void check_use(Reader& reader) const;
};

/// The rows of `paths`, in their order.
///
/// Throws: InputError with every problem of all files; an id that occurs twice is one
std::vector<PublishedRow> read_published(std::span<const std::filesystem::path> paths);
/// The rows of the one file that holds `text`.
///
/// Throws: InputError with every problem
std::vector<PublishedRow> parse_published(SourceText text);

}  // namespace xt
