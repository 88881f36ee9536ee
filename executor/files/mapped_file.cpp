#include "executor/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "costmodel/diagnostics/diagnostic.h"

namespace xt {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, int error) {
  throw InputError(
      std::vector{error_in(path.string(), fmt::format("cannot be read: {}", strerror(error)))});
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(path, errno);
  struct stat status {};
  void* start = nullptr;
  int error = 0;
  if (fstat(file, &status) != 0) error = errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (error == 0 && size > 0) {
    start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (start == MAP_FAILED) error = errno;
  }
  close(file);
  if (error != 0) refuse(path, error);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace xt
