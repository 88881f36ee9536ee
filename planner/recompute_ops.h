#pragma once

// Which of a layer's ops run again before its backward pass, if not all of them.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/units/parse.h"

namespace xt {

/// Kinds of ops whose results may be dropped: every_second_product drops those of every second
/// product only, counted from the second of a layer; layer_norms those of the norms before
/// attention and ffn; ffn those of all that follows the latter, and runs all of it again; experts
/// those of experts and of the exchanges of their rows, expert_products those of experts alone.
enum class RecomputeOp : std::uint8_t {
  norms,
  activations,
  attention,
  products,
  experts,
  every_second_product,
  layer_norms,
  ffn,
  expert_products
};

inline constexpr std::array<std::string_view, 9> recompute_op_names = {
    "norms",       "activations", "attention",      "products", "experts", "every_second_product",
    "layer_norms", "ffn",         "expert_products"};

/// Ops whose results are dropped after the forward pass, `all` or some joined by `+`. What a
/// backward pass reads of the others is kept.
class RecomputeOps {
 public:
  static constexpr std::string_view type_name =
      "`all`, or some of `norms`, `activations`, `attention`, `products`, `experts`, "
      "`every_second_product`, `layer_norms`, `ffn` and `expert_products` joined by `+`";

  bool operator==(const RecomputeOps&) const = default;

  static Parsed<RecomputeOps> from_text(std::string_view text);
  std::string text() const;

  bool is_all() const { return chosen_ == 0; }
  bool has(RecomputeOp op) const { return (chosen_ >> static_cast<unsigned>(op) & 1u) != 0; }
  void add(RecomputeOp op) { chosen_ |= 1u << static_cast<unsigned>(op); }

 private:
  std::uint32_t chosen_ = 0;  ///< bit per op; none: all
};

}  // namespace xt
