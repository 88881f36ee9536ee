// Source: Hugging Face transformers, modeling_utils.py, save_pretrained, for names and index

#include "executor/weights/weights_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "costmodel/diagnostics/check.h"
#include "costmodel/io/json.h"
#include "executor/weights/elements.h"
#include "executor/weights/safetensors.h"

namespace xt {
namespace {

constexpr std::string_view index_name = "model.safetensors.index.json";

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
}

void write_at(int descriptor, const std::filesystem::path& path, std::int64_t offset,
              std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno != EINTR) fail(path);
    if (written <= 0) continue;
    offset += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// Weights in `folder`: files of ours and of whoever published.
std::vector<std::filesystem::path> weights_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(folder)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model") && (name.ends_with(".safetensors") || name == index_name))
      found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

WeightsFolder::WeightsFolder(std::filesystem::path folder, std::vector<TensorSpec> tensors,
                             Bytes largest_file)
    : folder_(std::move(folder)) {
  std::int64_t in_file = 0;
  for (TensorSpec& tensor : tensors) {
    const std::int64_t bytes = tensor.bytes();
    if (files_.empty() || in_file + bytes > largest_file.value) {
      files_.emplace_back();
      in_file = 0;
    }
    in_file += bytes;
    files_.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    file.name = files_.size() == 1
                    ? "model.safetensors"
                    : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files_.size());
    file.header = safetensors_header(file.tensors);
    auto offset = static_cast<std::int64_t>(file.header.size());
    for (const TensorSpec& tensor : file.tensors) {
      places_[tensor.name] = {i, offset, tensor.dtype};
      offset += tensor.bytes();
    }
  }
}

WeightsFolder::~WeightsFolder() {
  for (const File& file : files_)
    if (file.descriptor >= 0) close(file.descriptor);
  if (!is_begun_) return;
  for (const File& file : files_) unlink(temporary(file).c_str());
}

std::filesystem::path WeightsFolder::temporary(const File& file) const {
  return folder_ / (file.name + ".new");
}

// Space is taken at once, so that a full disk is known before anybody writes.
void WeightsFolder::begin() {
  create_folder(folder_);
  is_begun_ = true;
  for (const File& file : files_) {
    const std::filesystem::path path = temporary(file);
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) fail(path);
    auto size = static_cast<std::int64_t>(file.header.size());
    for (const TensorSpec& tensor : file.tensors) size += tensor.bytes();
    const int error = posix_fallocate(descriptor, 0, size);
    if (error == 0) write_at(descriptor, path, 0, std::as_bytes(std::span(file.header)));
    close(descriptor);
    errno = error;
    if (error != 0) fail(path);
  }
}

void WeightsFolder::write(const std::string& name, std::int64_t first,
                          std::span<const float> elements) {
  const Place& place = places_.at(name);
  File& file = files_[place.file];
  if (file.descriptor < 0) file.descriptor = open(temporary(file).c_str(), O_WRONLY | O_CLOEXEC);
  if (file.descriptor < 0) fail(temporary(file));
  write_at(file.descriptor, temporary(file), place.offset + first * width(place.dtype),
           encode(elements, place.dtype));
}

void WeightsFolder::flush() const {
  for (const File& file : files_)
    if (file.descriptor >= 0 && fsync(file.descriptor) != 0) fail(temporary(file));
}

// Who reads in between finds the old content or the new: an index decides which files count, and
// none that it names goes before it.
void WeightsFolder::publish() {
  for (const File& file : files_) std::filesystem::rename(temporary(file), folder_ / file.name);
  is_begun_ = false;
  if (files_.size() > 1) {
    write_index();
  } else {
    std::filesystem::remove(folder_ / index_name);
  }
  for (const std::filesystem::path& old : weights_in(folder_)) {
    const bool is_new =
        old.filename() == index_name ||
        std::ranges::any_of(files_, [&](const File& file) { return old.filename() == file.name; });
    if (!is_new) std::filesystem::remove(old);
  }
}

void WeightsFolder::write_index() const {
  Json map = Json::object();
  std::int64_t total = 0;
  for (const File& file : files_)
    for (const TensorSpec& tensor : file.tensors) {
      map.add(tensor.name, file.name);
      total += tensor.bytes();
    }
  const Json index =
      Json::object({{"metadata", Json::object({{"total_size", total}})}, {"weight_map", map}});
  write_file(folder_ / index_name, index.pretty(), Overwrite::allow);
}

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const std::string_view name :
       {"added_tokens.json", "chat_template.jinja", "generation_config.json", "merges.txt",
        "special_tokens_map.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
        "vocab.json"})
    if (file_exists(from / name))
      std::filesystem::copy_file(from / name, to / name,
                                 std::filesystem::copy_options::skip_existing);
}

void check_weights_folder(const std::filesystem::path& folder, Overwrite overwrite) {
  for (const std::filesystem::path& path : weights_in(folder)) check_overwrite(path, overwrite);
}

}  // namespace xt
