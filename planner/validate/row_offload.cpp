#include "planner/validate/row_offload.h"

#include <algorithm>
#include <array>

namespace xt {
namespace {

constexpr std::array<Offload, 6> offloads = {{
    {""},
    {"activations", true},
    {"activation checkpoints", true},
    {"optimizer: AdamW on the CPU", false, true},
    {"parameters, optimizer", false, true, true},
    {"parameters, optimizer; activations", true, true, true},
}};

}  // namespace

const Offload* offload_of(const PublishedRow& row) {
  const auto found = std::ranges::find(offloads, row.offload.value_or(""), &Offload::detail);
  return found == offloads.end() ? nullptr : found;
}

}  // namespace xt
