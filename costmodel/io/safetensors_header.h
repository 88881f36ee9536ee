#pragma once

// The header of a safetensors file: which tensors the file holds, and where. Every position is
// checked before it is used. Knows no model.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "costmodel/units/dtype.h"

namespace xt {

/// A tensor as it will lie in a file.
struct TensorSpec {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const { return elements() * width(dtype); }
};

/// A tensor as it lies in a file: row-major elements.
struct StoredTensor {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  /// The product of the shape.
  [[nodiscard]] std::int64_t elements() const;
};

/// The tensors that the bytes of a safetensors file describe, sorted by position.
///
/// Throws: InputError naming `path` if the bytes are not a whole, consistent safetensors file
std::vector<StoredTensor> parse_safetensors(const std::string& path,
                                            std::span<const std::byte> bytes);

/// What stands in front of the data of a file with `tensors`, whose elements follow in this order.
std::string safetensors_header(std::span<const TensorSpec> tensors);

}  // namespace xt
