#include "planner/validate/published_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/io/json_document.h"
#include "costmodel/models/config_limits.h"

namespace xt {
namespace {

// What no row has more of; products of these are counts that 64 bits hold.
constexpr std::int64_t most_devices = 1'000'000;
constexpr std::int64_t most_sequences = 1'000'000;
constexpr std::int64_t most_tokens = 1'000'000'000;

// Ranks of a layout, or more than any row has.
std::int64_t ranks_of(const PublishedParallel& p) {
  std::int64_t ranks = 1;
  for (const std::int64_t degree : {p.dp_shard, p.dp_replicate, p.tp, p.pp, p.cp})
    ranks = std::min(ranks * degree, 1000 * most_devices);
  return ranks;
}

}  // namespace

template <typename Archive>
void PublishedModel::describe(Archive& archive) {
  archive.field("name", name, "As the source calls it");
  archive.field("num_hidden_layers", num_hidden_layers, "Decoder layers")
      .at_least(1)
      .at_most(ConfigLimits::layers);
  archive.field("hidden_size", hidden_size, "Width of the model")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("intermediate_size", intermediate_size, "Ffn width of dense layers")
      .at_least(0)
      .at_most(ConfigLimits::width);
  archive.field("num_attention_heads", num_attention_heads, "Query heads")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("num_key_value_heads", num_key_value_heads, "Key and value heads")
      .at_least(1)
      .at_most(ConfigLimits::heads);
  archive.field("head_dim", head_dim, "Size of a head").at_least(1).at_most(ConfigLimits::width);
  archive.field("vocab_size", vocab_size, "Rows of the embedding, padding included")
      .at_least(2)
      .at_most(ConfigLimits::vocabulary);
  archive.field("gated_mlp", gated_mlp, "Three matrices rather than two");
  archive.field("tie_word_embeddings", tie_word_embeddings, "lm_head is the embedding");
  archive.field("position", position, "How positions enter")
      .one_of(std::array{"rope", "learned", "alibi"});
  describe_experts(archive);
  archive.field("sliding_window", sliding_window, "Tokens that attention reaches back")
      .at_least(1)
      .at_most(most_tokens);
  archive.field("mtp_layers", mtp_layers, "Layers that predict further tokens")
      .at_least(0)
      .at_most(ConfigLimits::further_tokens);
}

template <typename Archive>
void PublishedModel::describe_experts(Archive& archive) {
  archive.field("num_experts", num_experts, "Experts of a routed layer")
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("num_experts_per_tok", num_experts_per_tok, "Experts of a token")
      .at_least(1)
      .at_most(ConfigLimits::experts);
  archive.field("moe_intermediate_size", moe_intermediate_size, "Width of an expert")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive
      .field("shared_expert_intermediate_size", shared_expert_intermediate_size,
             "Width of what every token goes to")
      .at_least(0)
      .at_most(ConfigLimits::width);
  archive.field("first_k_dense_replace", first_k_dense_replace, "Leading dense layers")
      .at_least(0)
      .at_most(ConfigLimits::layers);
  archive.field("q_lora_rank", q_lora_rank, "Rank that queries pass through")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("kv_lora_rank", kv_lora_rank, "Size of the latent")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("qk_nope_head_dim", qk_nope_head_dim, "Part without rotary angles")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("qk_rope_head_dim", qk_rope_head_dim, "Part with rotary angles")
      .at_least(1)
      .at_most(ConfigLimits::width);
  archive.field("v_head_dim", v_head_dim, "Size of a head's values")
      .at_least(1)
      .at_most(ConfigLimits::width);
}

void PublishedModel::check(Reader& reader) const {
  const bool has_experts = num_experts_per_tok && moe_intermediate_size &&
                           shared_expert_intermediate_size && first_k_dense_replace;
  if (num_experts && !has_experts)
    reader.problem("num_experts",
                   "a model with experts needs num_experts_per_tok, moe_intermediate_size, "
                   "shared_expert_intermediate_size and first_k_dense_replace");
  const bool has_heads = qk_nope_head_dim && qk_rope_head_dim && v_head_dim;
  if (kv_lora_rank && !has_heads)
    reader.problem("kv_lora_rank",
                   "latent attention needs qk_nope_head_dim, qk_rope_head_dim and v_head_dim");
}

template <typename Archive>
void PublishedParallel::describe(Archive& archive) {
  archive.field("dp_shard", dp_shard, "Ranks that shard data and parameters")
      .at_least(1)
      .at_most(most_devices);
  archive.field("dp_replicate", dp_replicate, "Copies of those").at_least(1).at_most(most_devices);
  archive.field("tp", tp, "Tensor parallel ranks").at_least(1).at_most(most_devices);
  archive.field("sequence_parallel", sequence_parallel, "Norms split over tensor parallel ranks");
  archive.field("pp", pp, "Pipeline stages").at_least(1).at_most(most_devices);
  archive.field("vpp", vpp, "Model chunks of a pipeline rank")
      .at_least(1)
      .at_most(ConfigLimits::layers);
  archive.field("cp", cp, "Ranks that share a sequence").at_least(1).at_most(most_devices);
  archive.field("ep", ep, "Ranks that share a layer's experts").at_least(1).at_most(most_devices);
  archive.field("etp", etp, "Tensor parallel ranks of an expert").at_least(1).at_most(most_devices);
  archive.field("zero", zero, "0, 1 optimizer, 2 and gradients, 3 and parameters sharded")
      .at_least(0)
      .at_most(3);
}

template <typename Archive>
void PublishedMeasured::describe(Archive& archive) {
  archive.field("tokens_per_device_s", tokens_per_device_s, "Tokens of a device per second")
      .above(0)
      .at_most(1e9);
  archive.field("step_time_s", step_time_s, "Seconds of a step").at_least(1e-6).at_most(1e9);
  archive.field("tflops_per_device", tflops_per_device, "As printed, for reading")
      .above(0)
      .at_most(1e6);
  archive.field("mfu", mfu, "As printed, for reading").above(0).at_most(1);
  archive.field("mfu_convention", mfu_convention, "What the two count");
  archive.field("mfu_peak_tflops", mfu_peak_tflops, "What mfu divides by").above(0).at_most(1e6);
  archive.field("peak_memory_bytes", peak_memory_bytes, "Of a device").at_least(1);
  archive.field("memory_kind", memory_kind, "What the peak counts");
  archive.field("oom", oom, "Whether memory ran out");
}

template <typename Archive>
void PublishedRow::describe(Archive& archive) {
  archive.field("id", id, "Stable name; what stands before the last dash is its source");
  archive.field("source", source, "Where it is printed");
  archive.field("tier", tier, "A: value and configuration together; B: one part from elsewhere")
      .one_of(std::array{"A", "B"});
  std::vector<std::string_view> machines(published_machines.begin(), published_machines.end());
  machines.push_back(two_die_package);
  archive.field("machine", machine, "Type of device").one_of(machines);
  archive.field("devices", devices, "As the framework counts them")
      .at_least(1)
      .at_most(most_devices);
  archive.field("devices_per_node", devices_per_node, "Of those in one node")
      .at_least(1)
      .at_most(most_devices);
  archive
      .field("scale_out_gbit_s_per_device", scale_out_gbit_s_per_device,
             "Line rate between nodes, one way")
      .at_least(0.001)
      .at_most(1e6);
  archive.field("network_note", network_note, "What the network is");
  archive.field("framework", framework, "As the source calls it");
  archive.field("framework_family", framework_family, "How it splits a model")
      .one_of(framework_families);
  archive.field("model", model, "What is trained");
  describe_step(archive);
  describe_outcome(archive);
}

template <typename Archive>
void PublishedRow::describe_step(Archive& archive) {
  archive.field("seq_len", seq_len, "Tokens of a sequence").at_least(1).at_most(most_tokens);
  archive.field("micro_batch_size", micro_batch_size, "Sequences of a rank's forward pass")
      .at_least(1)
      .at_most(most_sequences);
  archive.field("global_batch_size", global_batch_size, "Sequences of a step")
      .at_least(1)
      .at_most(most_tokens);
  archive.field("parallel", parallel, "How a step is spread over devices");
  archive.field("precision", precision, "Format of large matrix products")
      .one_of(published_precisions);
  archive
      .field("optimizer_state_bytes_per_param", optimizer_state_bytes_per_param,
             "Optimizer state, with a separate fp32 copy of weights")
      .at_least(0);
  archive.field("recompute", recompute, "Which layers compute their forward again");
  archive.field("recompute_detail", recompute_detail, "What is recomputed");
  archive.field("compile", compile, "torch.compile");
  archive.field("offload", offload, "What waits in host memory");
  archive.field("moe_balance", moe_balance, "How tokens spread over experts");
  archive.field("attention", attention, "Kernel of attention");
}

template <typename Archive>
void PublishedRow::describe_outcome(Archive& archive) {
  archive.field("measured", measured, "What was measured");
  archive.field("usable_for", usable_for, "What the row may be held against");
  archive.field("notes", notes, "Assumptions, and what fits no field");
  archive.field("simumax", simumax, "What another simulator says");
}

void PublishedRow::check(Reader& reader) const {
  const PublishedParallel& p = parallel;
  const std::int64_t product = ranks_of(p);
  if (product != devices)
    reader.problem("devices",
                   fmt::format("dp_shard · dp_replicate · tp · pp · cp is {}, but there are {} "
                               "devices",
                               product, devices));
  if (p.ep * p.etp > 1 && !model.is_moe())
    reader.problem("parallel.ep", fmt::format("{} has no experts to spread", model.name));
  if (model.is_moe() && *model.num_experts % p.ep != 0)
    reader.problem("parallel.ep", fmt::format("{} experts are not divisible by {} ranks",
                                              *model.num_experts, p.ep));
  if (recompute == PublishedRecompute::selective && !recompute_detail)
    reader.problem("recompute", "selective recompute needs recompute_detail");
  check_use(reader);
}

void PublishedRow::check_use(Reader& reader) const {
  if (usable_for.empty()) reader.problem("usable_for", "the row may be held against nothing");
  if (is_usable_for(Use::time) && !tokens_per_device_s())
    reader.problem("usable_for",
                   "`time` needs tokens_per_device_s, or step_time_s and global_batch_size");
  if (is_usable_for(Use::memory) && !measured.peak_memory_bytes)
    reader.problem("usable_for", "`memory` needs peak_memory_bytes");
  if (is_usable_for(Use::oom) && !measured.oom.value_or(false))
    reader.problem("usable_for", "`oom` needs oom to be true");
}

bool PublishedRow::is_usable_for(Use use) const {
  return std::ranges::find(usable_for, use) != usable_for.end();
}

std::optional<double> PublishedRow::tokens_per_device_s() const {
  if (measured.tokens_per_device_s) return measured.tokens_per_device_s;
  if (!measured.step_time_s || !global_batch_size) return std::nullopt;
  return static_cast<double>(*global_batch_size * seq_len) / static_cast<double>(devices) /
         *measured.step_time_s;
}

namespace {

// A file of rows.
struct PublishedFile {
  std::string schema, license_note;
  std::vector<PublishedRow> rows;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of the file");
    archive.field("license_note", license_note, "What may be done with the rows");
    archive.field("rows", rows, "Published training steps");
  }
};

// Reads files one after the other and keeps the problems of all of them.
class PublishedReader {
 public:
  void read(const Document& document) {
    Reader reader(document);
    PublishedFile file;
    if (has_schema(reader) && reader.read(file)) {
      note_ids(reader, file.rows);
      rows_.insert(rows_.end(), std::make_move_iterator(file.rows.begin()),
                   std::make_move_iterator(file.rows.end()));
    }
    problems_.insert(problems_.end(), reader.problems().begin(), reader.problems().end());
    sources_.push_back(document.source);
  }

  std::vector<PublishedRow> take() {
    if (problems_.empty()) return std::move(rows_);
    sort_by_position(problems_);
    throw InputError(std::move(problems_), std::move(sources_));
  }

 private:
  // Another format would be wrong in every row: that is said once.
  static bool has_schema(Reader& reader) {
    const Node* schema = find(reader.document().root, "schema");
    if (schema == nullptr) {
      reader.problem("", "names no format", fmt::format("expected `{}`", published_schemas[0]));
      return false;
    }
    if (std::ranges::find(published_schemas, schema->text) != published_schemas.end()) return true;
    reader.problem(*schema,
                   fmt::format("schema is {}, must be `{}`", found(*schema), published_schemas[0]));
    return false;
  }

  void note_ids(Reader& reader, const std::vector<PublishedRow>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string path = fmt::format("rows[{}].id", i);
      const std::string here =
          fmt::format("{}:{}", reader.document().source.path, reader.line_of(path));
      const auto [first, is_new] = ids_.try_emplace(rows[i].id, here);
      if (!is_new)
        reader.problem(path, fmt::format("id `{}` is also at {}", rows[i].id, first->second));
    }
  }

  std::vector<PublishedRow> rows_;
  std::vector<Diagnostic> problems_;
  std::vector<SourceText> sources_;
  std::map<std::string, std::string> ids_;  // to where they stand
};

}  // namespace

std::vector<PublishedRow> read_published(std::span<const std::filesystem::path> paths) {
  PublishedReader reader;
  for (const std::filesystem::path& path : paths) reader.read(read_json(path));
  return reader.take();
}

std::vector<PublishedRow> parse_published(SourceText text) {
  PublishedReader reader;
  reader.read(parse_json_document(std::move(text)));
  return reader.take();
}

}  // namespace xt
