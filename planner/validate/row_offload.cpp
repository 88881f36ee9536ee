#include "planner/validate/row_offload.h"

#include <algorithm>
#include <array>

#include "planner/validate/spelling.h"

namespace xt {
namespace {

constexpr std::array<Offload, 8> offloads = {{
    {""},
    {"none"},
    {"optimizer, parameters", false, true, true},
    {"activations", true},
    {"activation checkpoints", true},
    {"optimizer: AdamW on the CPU", false, true},
    {"parameters, optimizer", false, true, true},
    {"parameters, optimizer; activations", true, true, true},
}};

std::string_view share_of_chunks(std::string_view text) {
  constexpr std::string_view before = "activations, share ", behind = " of the pipeline stage";
  if (!text.starts_with(before) || !text.ends_with(behind)) return {};
  return text.substr(before.size(), text.size() - before.size() - behind.size());
}

}  // namespace

std::optional<Offload> offload_of(const PublishedRow& row) {
  const std::string_view detail = row.offload ? std::string_view(*row.offload) : std::string_view();
  if (const std::string_view share = share_of_chunks(detail); !share.empty())
    return Offload{detail, false, false, false, share};
  const auto found = std::ranges::find_if(
      offloads, [&](const Offload& of) { return words_of(of.detail) == words_of(detail); });
  return found == offloads.end() ? std::nullopt : std::optional(*found);
}

}  // namespace xt
