#pragma once

// Weights in the safetensors format: one file, or several with an index, as models are published.
// Every position in a file is checked before it is used. Knows no model.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/units/dtype.h"
#include "executor/files/mapped_file.h"

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

/// All tensors of a model's files, by name.
class Weights {
 public:
  /// Opens a `.safetensors` file, an `.index.json` with the files it names, or a folder that holds
  /// `model.safetensors.index.json` or `model.safetensors`.
  ///
  /// Throws: InputError if one is missing or damaged, or if the index and the files disagree
  explicit Weights(const std::filesystem::path& path);

  /// The tensor called `name`, or null.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  /// The tensor called `name`.
  ///
  /// Throws: InputError, with the nearest name, if there is none, if its shape is not `shape`, or
  ///         if its elements are not decodable
  [[nodiscard]] const StoredTensor& at(std::string_view name,
                                       std::span<const std::int64_t> shape) const;
  /// All names, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  void open_file(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& path);

  std::string path_;
  std::vector<MappedFile> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

/// What stands in front of the data of a file with `tensors`, whose elements follow in this order.
std::string safetensors_header(std::span<const TensorSpec> tensors);

}  // namespace xt
