#include "planner/lower/layout.h"

#include <algorithm>

namespace xt {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout flat_layout(const Block& block, bool is_expert, std::int64_t group_size) {
  FlatLayout layout;
  std::int64_t end = 0;
  const auto pad_to = [&](std::int64_t start) {
    if (start > end) layout.gaps.emplace_back(end, start - end);
  };
  for (std::size_t i = 0; i < block.parameters.size(); ++i) {
    const GraphParameter& parameter = block.parameters[i];
    if (parameter.is_expert != is_expert) continue;
    const std::int64_t start = round_up(end, flat_alignment);
    pad_to(start);
    layout.parameters.push_back(static_cast<std::uint16_t>(i));
    layout.offsets.push_back(start);
    layout.largest_piece = std::max(layout.largest_piece, parameter.largest_piece);
    end = start + parameter.elements;
  }
  layout.elements = round_up(end, flat_alignment * group_size);
  pad_to(layout.elements);
  return layout;
}

}  // namespace xt
