#include "planner/validate/tuned_recipe.h"

#include <array>
#include <optional>
#include <string_view>

#include "planner/validate/spelling.h"

namespace xt {
namespace {

struct Framework {
  std::string_view name;        // how it begins
  std::string_view fp8_recipe;  // on H100
};

constexpr std::array<Framework, 2> tuned = {
    {{"NeMo", "delayed"}, {"Megatron-Bridge", "tensorwise"}}};

const Framework* tuned_framework(const PublishedRow& row) {
  for (const Framework& of : tuned)
    if (has_words(row.framework, of.name)) return &of;
  return nullptr;
}

struct Spelling {
  std::string_view precision, recipe;
};

constexpr std::array<Spelling, 5> spellings = {{{"fp8_delayed", "delayed"},
                                                {"fp8_current_scaling", "tensorwise"},
                                                {"fp8_tensorwise", "tensorwise"},
                                                {"fp8_blockwise", "blockwise"},
                                                {"fp8_mx", "mxfp8"}}};

std::optional<std::string_view> fp8_recipe(const PublishedRow& row) {
  for (const Spelling& of : spellings)
    if (row.precision == of.precision) return of.recipe;
  if (const Framework* of = tuned_framework(row)) return of->fp8_recipe;
  return std::nullopt;
}

// Both frameworks turn the overlap off where tensor parallel ranks repeat tokens; Transformer
// Engine's buffers are of one node.
//
// Source: NeMo, lightning/pytorch/callbacks/megatron_comm_overlap.py; Megatron-Bridge,
// training/comm_overlap.py
bool exchanges_in_pieces(const PublishedRow& row) {
  const PublishedParallel& parallel = row.parallel;
  return parallel.tp > 1 && parallel.tp <= row.devices_per_node && !row.model.is_moe() &&
         parallel.sequence_parallel.value_or(true);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tuned_recipe(const PublishedRow& row) {
  std::vector<std::pair<std::string, std::string>> flags;
  const bool is_tuned = tuned_framework(row) != nullptr;
  if (row.has_fp8()) {
    if (const auto recipe = fp8_recipe(row)) flags.emplace_back("fp8_recipe", *recipe);
    if (is_tuned) flags.emplace_back("fp8_param_gather", "true");
  }
  if (!is_tuned) return flags;
  flags.emplace_back("reduce_dtype", "bf16");
  if (exchanges_in_pieces(row)) flags.emplace_back("tensor_parallel_overlap", "true");
  return flags;
}

bool sends_copies_by_recipe(const PublishedRow& row) {
  const bool says_otherwise =
      row.notes.find("alltoall") != std::string::npos || has_words(row.framework, "all-to-all");
  return has_words(row.framework, "Megatron-Bridge") && !says_otherwise &&
         row.parallel.ep > row.devices_per_node;
}

}  // namespace xt
