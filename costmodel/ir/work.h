#pragma once

// Work: what one op asks of a device, independent of which op it is. Equal work is stored once, so
// that a schedule of thousands of ops is priced by a few dozen evaluations.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "costmodel/diagnostics/check.h"
#include "costmodel/ir/ids.h"
#include "costmodel/ir/kernel.h"
#include "costmodel/units/dtype.h"

namespace xt {

/// Quantities of a step that only the data decides.
enum class SymbolKind : std::uint8_t {
  rows_received,
  sum_squared_lengths,
  longest_sample,
  sample_tokens  ///< of a rank's tokens, those that are no padding; they come first
};

inline constexpr std::array<std::string_view, 4> symbol_kind_names = {
    "rows_received", "sum_squared_lengths", "longest_sample", "sample_tokens"};

/// The values of all symbols of a schedule, indexed by SymbolId.
using Bindings = std::vector<std::int64_t>;

/// A number, or a symbol whose value the data decides.
struct Extent {
  std::int64_t code = 0;

  constexpr Extent() = default;
  constexpr Extent(std::int64_t number) : code(number) {}  // NOLINT(google-explicit-constructor)
  static constexpr Extent of(SymbolId symbol) {
    return Extent(-1 - static_cast<std::int64_t>(symbol));
  }
  constexpr bool is_symbol() const { return code < 0; }
  constexpr SymbolId symbol() const { return static_cast<SymbolId>(-1 - code); }
  constexpr auto operator<=>(const Extent&) const = default;

  /// The number, or the symbol's value under `bindings`.
  std::int64_t value(const Bindings& bindings) const {
    return is_symbol() ? bindings[at(symbol())] : code;
  }
};

inline constexpr std::size_t max_extents = 7;

/// The ranks that take part in a collective, by their part in the layout of the strategy; up_matrix
/// and down_matrix are those that share one matrix of an expert, before and after its activation;
/// embedding are the two stages of a pipeline that have a copy each of one weight.
enum class Group : std::uint8_t {
  none,
  world,
  shard,
  expert_shard,
  expert,
  replica,
  sequence,
  context,
  tensor,
  up_matrix,
  down_matrix,
  embedding
};

inline constexpr std::array<std::string_view, 12> group_names = {
    "none",     "world",   "shard",  "expert_shard", "expert",      "replica",
    "sequence", "context", "tensor", "up_matrix",    "down_matrix", "embedding"};

/// A kernel with its extents: everything that its cost depends on.
struct Work {
  Kernel kernel = Kernel::add;
  DType dtype = DType::fp32;
  Group group = Group::none;
  std::array<Extent, max_extents> extents{};

  auto operator<=>(const Work&) const = default;

  /// Extent `i` of the kernel's row as a number under `bindings`.
  std::int64_t extent(std::size_t i, const Bindings& bindings) const {
    return extents[i].value(bindings);
  }
};

}  // namespace xt
