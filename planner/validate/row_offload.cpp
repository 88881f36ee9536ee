#include "planner/validate/row_offload.h"

namespace xt {

bool offloads_inputs_of_layers(const PublishedRow& row) {
  return row.offload == "activations" || row.offload == "activation checkpoints";
}

std::string_view offload_share(const PublishedRow& row) {
  constexpr std::string_view before = "activations, share ", behind = " of the pipeline stage";
  const std::string_view text = row.offload ? std::string_view(*row.offload) : std::string_view();
  if (!text.starts_with(before) || !text.ends_with(behind)) return {};
  return text.substr(before.size(), text.size() - before.size() - behind.size());
}

}  // namespace xt
