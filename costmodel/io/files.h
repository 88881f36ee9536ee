#pragma once

// Whole files in and out. A file that the user named and that is not there is their mistake
// (InputError); a disk that fails is the world's (std::system_error).

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace xt {

enum class Overwrite : std::uint8_t { refuse, allow };

/// The bytes of the file at `path`.
///
/// Throws: InputError when there is no readable file, with the nearest name in its folder
std::string read_file(const std::filesystem::path& path);

/// Whether there is a file (not a folder) at `path`.
bool file_exists(const std::filesystem::path& path);

/// Makes `text` the content of `path`; readers see the old content or the new, never a part.
///
/// Throws: InputError when the file exists and may not be overwritten; std::system_error
void write_file(const std::filesystem::path& path, std::string_view text, Overwrite overwrite);

/// Creates `folder` and those above it where they are missing.
///
/// Throws: InputError when a file is in the way; std::system_error
void create_folder(const std::filesystem::path& folder);

/// Throws: InputError when `path` exists and may not be overwritten
void check_overwrite(const std::filesystem::path& path, Overwrite overwrite);

/// The files in `folder` whose name ends in `extension` (".yaml"), sorted by name.
///
/// Throws: InputError when there is no such folder
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            std::string_view extension);

/// A file written line by line while a run goes on; each line is on disk when `write` returns.
class LineFile {
 public:
  /// A file that begins with `lines`; readers see the old content or these.
  ///
  /// Throws: InputError when the file exists and may not be overwritten; std::system_error
  LineFile(std::filesystem::path path, Overwrite overwrite, std::string_view lines = {});

  /// Throws: std::system_error
  void write(std::string_view line);

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace xt
