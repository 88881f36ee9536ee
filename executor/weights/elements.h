#pragma once

// Elements of stored tensors as fp32 numbers and back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/units/dtype.h"

namespace xt {

/// Whether `dtype` is one that decode() and encode() know: fp32, bf16 or fp16.
bool is_decodable(DType dtype);

/// Writes into `to` the elements from `first` on of `stored`; exact.
///
/// Assumes: is_decodable(dtype), and `stored` holds as many
void decode(std::span<const std::byte> stored, DType dtype, std::int64_t first,
            std::span<float> to);

/// The elements as stored bytes, rounded to nearest.
///
/// Assumes: is_decodable(dtype)
std::vector<std::byte> encode(std::span<const float> elements, DType dtype);

}  // namespace xt
