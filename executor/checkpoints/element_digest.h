#pragma once

// Digests of what a checkpoint holds, to recognise a damaged one.

#include <cstdint>
#include <span>
#include <string_view>

namespace xt {

/// A digest of a stretch of tensor `name` from its element `first` on. That of a whole is the sum
/// of those of its parts, however it is divided: ranks add up what each wrote, or read.
std::uint64_t element_digest(std::string_view name, std::int64_t first,
                             std::span<const float> elements);

/// A digest of `text`.
std::uint64_t text_digest(std::string_view text);
/// That of a text whose first part has digest `before`, and `text` behind it.
std::uint64_t text_digest(std::string_view text, std::uint64_t before);

}  // namespace xt
