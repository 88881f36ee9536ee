#pragma once

// A file's bytes as memory, read from disk where they are touched.

#include <cstddef>
#include <filesystem>
#include <span>

namespace xt {

/// The content of a file that stays as it is while mapped.
class MappedFile {
 public:
  /// Throws: InputError if there is no such file or it cannot be read
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Stays valid when the object is moved.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace xt
