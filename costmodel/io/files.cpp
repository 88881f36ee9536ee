#include "costmodel/io/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"

namespace xt {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, std::string message, std::string hint = {}) {
  throw InputError({error_in(path.string(), std::move(message), std::move(hint))});
}

[[noreturn]] void fail(const fs::path& path, std::string_view doing) {
  throw std::system_error(errno, std::generic_category(),
                          fmt::format("{}: {}", path.string(), doing));
}

/// A file of nearly the same name in the same folder.
std::string hint_for_missing(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  if (error) return fmt::format("there is no folder `{}`", folder.string());
  std::ranges::sort(names);
  const auto near = nearest(path.filename().string(), names);
  return near ? fmt::format("did you mean `{}`?", (path.parent_path() / *near).string()) : "";
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse(path, "no such file", hint_for_missing(path));
  if (fs::is_directory(status)) refuse(path, "is a folder, expected a file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) refuse(path, "cannot be opened", std::generic_category().message(errno));
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) fail(path, "cannot be read");
  return text;
}

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void check_overwrite(const fs::path& path, Overwrite overwrite) {
  if (overwrite == Overwrite::refuse && fs::exists(path))
    refuse(path, "already exists", "pass `--force` to overwrite it");
}

void write_file(const fs::path& path, std::string_view text, Overwrite overwrite) {
  check_overwrite(path, overwrite);
  fs::path temporary = path;
  temporary += ".part";
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    if (!stream) fail(temporary, "cannot be created");
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    stream.close();
    if (!stream) fail(temporary, "cannot be written");
  }
  fs::rename(temporary, path);
}

void create_folder(const fs::path& folder) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    refuse(folder, "is a file, expected a folder");
  for (fs::path above = folder.parent_path(); !above.empty(); above = above.parent_path()) {
    const fs::file_status there = fs::status(above);
    if (fs::exists(there) && !fs::is_directory(there))
      refuse(above, "is a file, expected a folder");
    if (fs::exists(there) || above == above.root_path()) break;
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw std::system_error(error, folder.string() + ": cannot be created");
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  if (!fs::is_directory(folder)) refuse(folder, "no such folder", hint_for_missing(folder));
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename().string().ends_with(extension))
      paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

LineFile::LineFile(fs::path path, Overwrite overwrite, std::string_view lines)
    : path_(std::move(path)) {
  write_file(path_, lines, overwrite);
  stream_.open(path_, std::ios::binary | std::ios::app);
  if (!stream_) fail(path_, "cannot be created");
}

void LineFile::write(std::string_view line) {
  stream_ << line << '\n' << std::flush;
  if (!stream_) fail(path_, "cannot be written");
}

}  // namespace xt
