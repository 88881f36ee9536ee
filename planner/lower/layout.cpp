#include "planner/lower/layout.h"

#include <algorithm>

namespace xt {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where the parameters lie once gathered: as in the shards, or closer where some are in fp8.
void lay_out_gathered(FlatLayout& layout, const Block& block, std::int64_t group_size,
                      DType dtype) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const GraphParameter& parameter = block.parameters[layout.parameters[i]];
    if (parameter.is_fp8) layout.fp8_elements += parameter.elements;
    layout.gathered_offsets.push_back(round_up(end, flat_alignment * width(dtype)));
    end = layout.gathered_offsets.back() +
          parameter.elements * width(parameter.is_fp8 ? DType::fp8 : dtype);
  }
  layout.gathered_bytes = round_up(end, flat_alignment * width(dtype) * group_size);
}

FlatKind kind_of(const GraphParameter& parameter, bool has_matrices_apart) {
  if (parameter.is_expert) return FlatKind::experts;
  const bool is_matrix = parameter.pieces.front().n_dimensions > 1;
  return has_matrices_apart && is_matrix ? FlatKind::matrices : FlatKind::rest;
}

}  // namespace

FlatLayout flat_layout(const Block& block, FlatKind kind, bool has_matrices_apart,
                       std::int64_t group_size, DType dtype) {
  FlatLayout layout;
  std::int64_t end = 0;
  const auto pad_to = [&](std::int64_t start) {
    if (start > end) layout.gaps.emplace_back(end, start - end);
  };
  for (std::size_t i = 0; i < block.parameters.size(); ++i) {
    const GraphParameter& parameter = block.parameters[i];
    if (kind_of(parameter, has_matrices_apart) != kind) continue;
    const std::int64_t start = round_up(end, flat_alignment);
    pad_to(start);
    layout.parameters.push_back(static_cast<std::uint16_t>(i));
    layout.offsets.push_back(start);
    layout.largest_piece = std::max(layout.largest_piece, parameter.largest_piece);
    end = start + parameter.elements;
  }
  layout.elements = round_up(end, flat_alignment * group_size);
  pad_to(layout.elements);
  lay_out_gathered(layout, block, group_size, dtype);
  return layout;
}

}  // namespace xt
