#include "costmodel/models/expert_pieces.h"

#include <fmt/format.h>

namespace xt {

RoutedNames routed_names(const Architecture& model) {
  if (model.model_type == "mixtral") return {"block_sparse_moe", "gate", "w1", "w3", "w2"};
  if (model.has_stacked_experts) return {"mlp", "router", "gate_up_proj", "", "down_proj"};
  return {"mlp", "gate", "gate_proj", "up_proj", "down_proj"};
}

std::vector<Piece> expert_pieces(std::string_view half, std::int64_t experts,
                                 std::initializer_list<std::string_view> names, std::int64_t rows,
                                 std::int64_t columns) {
  std::vector<Piece> pieces;
  std::int64_t offset = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (const std::string_view name : names) {
      pieces.push_back({fmt::format("{}.experts.{{}}.{}.weight", half, name),
                        {rows, columns, 1},
                        2,
                        static_cast<std::int32_t>(expert),
                        offset});
      offset += rows * columns;
    }
  }
  return pieces;
}

std::vector<Piece> stacked_pieces(std::string_view half, std::int64_t experts,
                                  std::string_view name, std::int64_t rows, std::int64_t columns) {
  std::vector<Piece> pieces;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    pieces.push_back({fmt::format("{}.experts.{}", half, name),
                      {rows, columns, 1},
                      columns > 1 ? 2 : 1,
                      static_cast<std::int32_t>(expert),
                      expert * rows * columns,
                      true});
  return pieces;
}

}  // namespace xt
