#pragma once

// Element types of buffers and their width.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/units/quantity.h"

namespace xt {

enum class DType : std::uint8_t { fp32, bf16, fp16, fp8, int64, int32, uint8 };

inline constexpr std::array<std::string_view, 7> dtype_names = {"fp32",  "bf16",  "fp16", "fp8",
                                                                "int64", "int32", "uint8"};

/// Bytes of one element.
constexpr std::int64_t width(DType dtype) {
  constexpr std::array<std::int64_t, 7> widths = {4, 2, 2, 1, 8, 4, 1};
  return widths[static_cast<std::size_t>(dtype)];
}

/// The spelling used in files and on the command line.
constexpr std::string_view name(DType dtype) {
  return dtype_names[static_cast<std::size_t>(dtype)];
}

/// The dtype spelt `text`, if there is one.
constexpr std::optional<DType> dtype_named(std::string_view text) {
  for (std::size_t i = 0; i < dtype_names.size(); ++i)
    if (dtype_names[i] == text) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace xt
