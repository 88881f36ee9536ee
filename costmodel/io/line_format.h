#pragma once

// How enumerators, numbers and format versions stand in files of JSON Lines. Private to io.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/json.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/units/dtype.h"

namespace xt {

/// The spellings of the enumerators that lines hold.
constexpr const auto& words_of(SymbolKind) { return symbol_kind_names; }
constexpr const auto& words_of(Group) { return group_names; }
constexpr const auto& words_of(Lane) { return lane_names; }
constexpr const auto& words_of(Phase) { return phase_names; }
constexpr const auto& words_of(BufferKind) { return buffer_kind_names; }
constexpr const auto& words_of(DType) { return dtype_names; }
constexpr const auto& words_of(Space) { return space_names; }
constexpr const auto& words_of(RopeScalingKind) { return rope_scaling_names; }
constexpr const auto& words_of(MemoryCategory) { return memory_category_names; }

/// The spelling of `value`.
template <typename Enum>
std::string_view word(Enum value) {
  return words_of(value)[static_cast<std::size_t>(value)];
}

/// The enumerator spelt by `json`.
///
/// Throws: JsonError when there is none
template <typename Enum>
Enum enum_from(const Json& json) {
  const auto& words = words_of(Enum{});
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == json.as_text()) return static_cast<Enum>(i);
  throw JsonError(fmt::format("the unknown word `{}`", json.as_text()));
}

/// Item `i` of a line.
///
/// Throws: JsonError when the line has fewer
inline const Json& item(const Json& line, std::size_t i) {
  if (i >= line.items().size())
    throw JsonError(fmt::format("{} items, expected at least {}", line.items().size(), i + 1));
  return line.items()[i];
}

/// A whole number that fits an `Integer`.
///
/// Throws: JsonError when it does not
template <typename Integer>
Integer narrow(const Json& json) {
  if (!std::in_range<Integer>(json.as_int()))
    throw JsonError(fmt::format("{} is out of range", json.as_int()));
  return static_cast<Integer>(json.as_int());
}

/// Throws: InputError with `hint` when the header `line` is not of format `schema`
inline void check_schema(const std::string& path, const Json& line, std::string_view schema,
                         std::string_view hint) {
  const Json* found = line.is_object() ? line.find("schema") : nullptr;
  if (found != nullptr && found->is_text() && found->as_text() == schema) return;
  const std::string is = found != nullptr && found->is_text()
                             ? fmt::format("is of format `{}`", found->as_text())
                             : "names no format";
  throw InputError(
      {error_in(path, fmt::format("{}, expected `{}`", is, schema), std::string(hint))});
}

}  // namespace xt
