#include "planner/validate/row_attention.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/validate/spelling.h"

namespace xt {
namespace {

constexpr std::array<std::string_view, 3> unfused_phrases = {
    "without flash kernels", "fused attention not used", "(no fused kernel)"};
constexpr std::array<std::string_view, 4> unfused_names = {"eager", "unfused", "no flash", "math"};
constexpr std::array<std::string_view, 5> left_open = {"flash", "flash attention", "sdpa", "te",
                                                       "transformer engine"};

struct Spelling {
  std::string_view words, kernel;
};

constexpr std::array<Spelling, 10> spellings = {{{"flash 2", "flash2"},
                                                 {"flash attention 2", "flash2"},
                                                 {"flashattention 2", "flash2"},
                                                 {"fa 2", "flash2"},
                                                 {"flash v 2", "flash2"},
                                                 {"flash 3", "flash3"},
                                                 {"flash attention 3", "flash3"},
                                                 {"flashattention 3", "flash3"},
                                                 {"fa 3", "flash3"},
                                                 {"cudnn", "cudnn"}}};

bool is(std::string_view text, std::string_view words) { return words_of(text) == words_of(words); }

}  // namespace

bool has_unfused_attention(const PublishedRow& row) {
  const bool is_named_so = row.attention && std::ranges::any_of(unfused_names, [&](auto name) {
                             return is(*row.attention, name);
                           });
  return is_named_so || std::ranges::any_of(unfused_phrases, [&](std::string_view phrase) {
           return row.notes.find(phrase) != std::string::npos;
         });
}

std::optional<std::string> attention_library(const PublishedRow& row) {
  if (!row.attention) return std::nullopt;
  for (const std::string_view name : left_open)
    if (is(*row.attention, name)) return std::nullopt;
  for (const Spelling& of : spellings)
    if (begins_with_words(*row.attention, of.words)) return std::string(of.kernel);
  return row.attention;
}

}  // namespace xt
