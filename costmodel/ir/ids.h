#pragma once

// Positions in a schedule's arrays, one type each, so that two indices cannot be swapped silently.

#include <cstddef>
#include <cstdint>

namespace xt {

enum class OpId : std::uint32_t {};
enum class BufferId : std::uint32_t {};
enum class WorkId : std::uint32_t {};
enum class SymbolId : std::uint32_t {};

/// Marks the absence of an op or a buffer where a record must hold one.
inline constexpr OpId no_op{0xffffffff};
inline constexpr BufferId no_buffer{0xffffffff};

/// The position as an array index.
template <typename Id>
constexpr std::size_t at(Id id) {
  return static_cast<std::size_t>(id);
}

}  // namespace xt
