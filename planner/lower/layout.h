#pragma once

// How the parameters of a block lie in flat buffers: aligned, padded to the group, and named.

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/ir/op_graph.h"

namespace xt {

/// Every parameter starts at a multiple of this many elements, so that kernels find their operands
/// aligned to 64 bytes in fp32.
inline constexpr std::int64_t flat_alignment = 16;

/// Parameters of one block that are sharded together.
struct FlatLayout {
  std::vector<std::uint16_t> parameters;                    ///< indices into Block::parameters
  std::vector<std::int64_t> offsets;                        ///< elements, per parameter
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps;  ///< offset and length of padding
  std::int64_t elements = 0;  ///< padded; a multiple of the group's size
  std::int64_t largest_piece = 0;
  std::vector<std::int64_t> gathered_offsets;  ///< bytes, per parameter, once gathered
  std::int64_t gathered_bytes = 0;             ///< padded; a multiple of the group's size
  std::int64_t fp8_elements = 0;               ///< of the parameters that are gathered in fp8

  bool has_fp8() const { return fp8_elements > 0; }
  bool is_empty() const { return parameters.empty(); }
};

/// What parameters are split and updated together for: experts; where matrices are updated apart,
/// those outside experts; and the others.
enum class FlatKind : std::uint8_t { rest, matrices, experts };

/// The layout of the parameters of `kind` in `block` over `group_size` ranks, gathered in `dtype`
/// where a parameter is not in fp8.
FlatLayout flat_layout(const Block& block, FlatKind kind, bool has_matrices_apart,
                       std::int64_t group_size, DType dtype);

}  // namespace xt
