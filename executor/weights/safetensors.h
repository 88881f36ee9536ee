#pragma once

// Weights in the safetensors format: one file, or several with an index, as models are published.
// Knows no model.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/io/safetensors_header.h"
#include "executor/files/mapped_file.h"

namespace xt {

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

}  // namespace xt
