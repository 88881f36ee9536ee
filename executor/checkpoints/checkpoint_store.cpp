#include "executor/checkpoints/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <system_error>

#include "costmodel/io/files.h"
#include "costmodel/units/parse.h"

namespace xt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr std::string_view new_suffix = ".new";
constexpr std::string_view old_suffix = ".old";

/// Returns when the content of `path`, a file or a folder's list of names, is on disk.
void flush(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_flushed = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!is_flushed)
    throw std::system_error(error, std::generic_category(), "cannot write " + path.string());
}

std::optional<std::int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  const Parsed<std::int64_t> step = parse_integer(std::string_view(name).substr(prefix.size()));
  return step.value;
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(prefix) && (name.ends_with(new_suffix) || name.ends_with(old_suffix));
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) found.push_back(entry.path());
  return found;
}

}  // namespace

fs::path CheckpointStore::path(std::int64_t step) const {
  return folder_ / fmt::format("{}{}", prefix, step);
}

fs::path CheckpointStore::temporary(std::int64_t step) const {
  return path(step).string() + std::string(new_suffix);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> steps;
  for (const fs::path& one : folders_in(folder_))
    if (const auto step = step_of(one); step && one == path(*step)) steps.push_back(*step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

void CheckpointStore::clear() const {
  for (const fs::path& one : folders_in(folder_))
    if (is_temporary(one)) fs::remove_all(one);
}

void CheckpointStore::begin(std::int64_t step) const {
  clear();
  create_folder(temporary(step));
}

void CheckpointStore::publish(const CheckpointFile& file, const WrittenLines& metrics) const {
  const fs::path made = temporary(file.position.step);
  for (const auto& [name, digest] : file.state_digests.entries) flush(made / name);
  fs::copy_file(metrics.path, made / checkpoint_metrics_name);
  fs::resize_file(made / checkpoint_metrics_name, metrics.bytes);
  flush(made / checkpoint_metrics_name);
  write_file(made / checkpoint_file_name, checkpoint_text(file), Overwrite::allow);
  flush(made / checkpoint_file_name);
  flush(made);
  retire(file.position.step);
  fs::rename(made, path(file.position.step));
  flush(folder_);
}

void CheckpointStore::keep_only(std::span<const std::int64_t> kept) const {
  for (const std::int64_t step : steps())
    if (std::ranges::find(kept, step) == kept.end()) retire(step);
}

void CheckpointStore::retire(std::int64_t step) const {
  if (!fs::exists(path(step))) return;
  const fs::path old = path(step).string() + std::string(old_suffix);
  fs::rename(path(step), old);
  fs::remove_all(old);
}

}  // namespace xt
