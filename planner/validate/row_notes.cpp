#include "planner/validate/row_notes.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "planner/validate/spelling.h"

namespace xt {
namespace {

// The number that stands between `before` and `behind` in a row's notes.
std::optional<double> number_in_notes(const PublishedRow& row, std::string_view before,
                                      std::string_view behind = {}) {
  const std::size_t found = row.notes.find(before);
  if (found == std::string::npos) return std::nullopt;
  const char* const end = row.notes.data() + row.notes.size();
  double number = 0;
  const auto read = std::from_chars(row.notes.data() + found + before.size(), end, number);
  const bool is_one = read.ec == std::errc() && std::string_view(read.ptr, end).starts_with(behind);
  return is_one ? std::optional(number) : std::nullopt;
}

}  // namespace

std::int64_t state_ranks(const PublishedRow& row) {
  return static_cast<std::int64_t>(
      number_in_notes(row, "optimizer state sharded over ").value_or(0));
}

double below_steady(const PublishedRow& row) {
  return number_in_notes(row, "from the start, about ", " % below the steady value").value_or(0) /
         100;
}

bool is_of_first_stage(const PublishedRow& row) {
  return row.parallel.pp > 1 && has_words(row.framework, "nanotron");
}

bool is_of_last_stage(const PublishedRow& row) {
  return row.parallel.pp > 1 && !is_of_first_stage(row) &&
         row.notes.find("(last pipeline stage)") != std::string::npos;
}

bool overlaps_nothing(const PublishedRow& row) {
  return row.notes.find("no overlap of gradient reduction, parameter gather or TP communication") !=
         std::string::npos;
}

bool keeps_references(const PublishedRow& row) {
  return has_words(row.framework, "DeepSpeed") && row.parallel.zero == 3 &&
         has_words(row.framework, "Hugging Face modelling code");
}

bool returns_logits(const PublishedRow& row) {
  constexpr std::string_view last = "2024-10";
  return has_words(row.framework, "DeepSpeed") && row.source.date.substr(0, last.size()) <= last &&
         has_words(row.framework, "Hugging Face modelling code");
}

bool compiles_loss(const PublishedRow& row) {
  constexpr std::string_view first = "2025-04";
  if (row.notes.find("fused cross entropy (Transformer Engine)") != std::string::npos) return true;
  if (uses_liger(row) || has_words(row.framework, "full inductor")) return true;
  const bool is_trainer = has_words(row.framework, "torchtitan") && row.framework_family == "fsdp2";
  return is_trainer && row.source.date >= first && row.compile.value_or(false) &&
         row.parallel.tp == 1;
}

bool stops_recompute_early(const PublishedRow& row) {
  constexpr std::string_view first = "2025-09";
  return !has_words(row.framework, "torchtitan") || row.source.date < first;
}

std::vector<std::pair<std::string, std::string>> flags_of_notes(const PublishedRow& row) {
  std::vector<std::pair<std::string, std::string>> flags;
  if (compiles_loss(row)) flags.emplace_back("compile_loss", "true");
  if (const std::optional<double> elements = number_in_notes(row, "reduce bucket "))
    flags.emplace_back("reduce_bucket", std::to_string(static_cast<std::int64_t>(*elements)));
  if (row.notes.find("fused matmul+communication (mc2)") != std::string::npos)
    flags.emplace_back("tensor_parallel_overlap", "true");
  if (returns_logits(row)) flags.emplace_back("return_logits", "true");
  if (keeps_references(row)) flags.emplace_back("memory_efficient_linear", "false");
  return flags;
}

bool has_open_memory(const PublishedRow& row) {
  return row.is_usable_for(Use::memory) &&
         (!row.measured.memory_kind ||
          row.notes.find("peak allocated assumed") != std::string::npos);
}

bool may_be_of_device(const PublishedRow& row) {
  return row.notes.find("(allocator or device) not stated") != std::string::npos;
}

Bytes least_memory(const PublishedRow& row) {
  constexpr double decimal_of_binary = 1e9 / (1 << 30);
  const Bytes printed(*row.measured.peak_memory_bytes);
  const bool may_be_decimal = row.notes.find("in whole GB; unit, ") != std::string::npos;
  return may_be_decimal ? scaled(printed, decimal_of_binary, Round::down) : printed;
}

bool uses_liger(const PublishedRow& row) {
  return row.notes.find("Liger fused linear cross entropy") != std::string::npos ||
         row.notes.find("Liger fused cross entropy") != std::string::npos;
}

bool is_ulysses(const PublishedRow& row) {
  constexpr std::string_view ulysses = "Ulysses";
  return has_words(row.notes, ulysses) || has_words(row.framework, ulysses) ||
         has_words(row.framework, "XTuner + DeepSpeed");
}

bool has_whole_logits(const PublishedRow& row) {
  return row.notes.find("full logits") != std::string::npos;
}

bool attends_by_transformer_engine(const PublishedRow& row) {
  return has_words(row.framework, "NeMo AutoModel") && row.model.is_moe() &&
         row.notes.find("FlexAttention") == std::string::npos;
}

std::int64_t dies_of_row(const PublishedRow& row, const Profile& profile) {
  return row.machine == one_die ? profile.ranks_per_device : 1;
}

}  // namespace xt
