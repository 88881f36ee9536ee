#pragma once

// Under which names the weights of a routed layer are published. Private to models/.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/architecture.h"

namespace xt {

/// How a family calls what a routed layer has.
struct RoutedNames {
  std::string_view half, router, gate, up, down;  ///< `gate` of both where they are one tensor
};

/// The names of the family of `model`.
///
/// Source:  the published weights of Mixtral 8x7B and gpt-oss, and those of Qwen3 and DeepSeek-V3
RoutedNames routed_names(const Architecture& model);

/// Pieces of a fused expert weight: per local expert `names.size()` matrices of `rows` by
/// `columns`.
std::vector<Piece> expert_pieces(std::string_view half, std::int64_t experts,
                                 std::initializer_list<std::string_view> names, std::int64_t rows,
                                 std::int64_t columns);

/// Pieces of one published tensor that has `rows` by `columns` of every expert; a vector of each
/// where there is one column.
std::vector<Piece> stacked_pieces(std::string_view half, std::int64_t experts,
                                  std::string_view name, std::int64_t rows, std::int64_t columns);

}  // namespace xt
