#include "executor/weights/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"
#include "costmodel/io/json.h"
#include "executor/weights/elements.h"

namespace xt {

/// The length and the JSON text in front of the data of `tensors`; in safetensors_header.cpp.
std::string safetensors_header(std::span<const StoredTensor> tensors);

namespace {

constexpr std::string_view index_suffix = ".index.json";

InputError refusal(const std::string& path, std::string message, std::string hint = {}) {
  return InputError(std::vector{error_in(path, std::move(message), std::move(hint))});
}

/// A new file beside its final place, which it takes when complete and leaves no trace of if not.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path)
      : path_(std::move(path)), temporary_(path_.string() + fmt::format(".{}.new", getpid())) {
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) fail();
  }
  ~NewFile() {
    if (file_ < 0) return;
    close(file_);
    unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void publish() {
    if (fsync(file_) != 0) fail();
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    close(file_);
    file_ = -1;
  }

 private:
  [[noreturn]] void fail() const {
    throw std::system_error(errno, std::generic_category(), "cannot write " + path_.string());
  }

  std::filesystem::path path_;
  std::string temporary_;
  int file_ = -1;
};

}  // namespace

Weights::Weights(const std::filesystem::path& path) : path_(path.string()) {
  const std::filesystem::path index = path / "model.safetensors.index.json";
  const std::filesystem::path single = path / "model.safetensors";
  if (path_.ends_with(index_suffix))
    open_index(path);
  else if (!std::filesystem::is_directory(path))
    open_file(path);
  else if (std::filesystem::exists(index))
    open_index(index);
  else if (std::filesystem::exists(single))
    open_file(single);
  else
    throw refusal(path_, "holds neither model.safetensors nor model.safetensors.index.json");
}

void Weights::open_file(const std::filesystem::path& path) {
  files_.emplace_back(path);
  for (StoredTensor& tensor : parse_safetensors(path.string(), files_.back().bytes())) {
    const std::string name = tensor.name;
    if (!tensors_.emplace(name, std::move(tensor)).second)
      throw refusal(path.string(), fmt::format("holds tensor `{}`, as does a file before", name));
  }
}

void Weights::open_index(const std::filesystem::path& path) {
  std::vector<std::pair<std::string, std::string>> file_of;
  try {
    const Json index = parse_json(read_file(path));
    for (const JsonMember& member : index.at("weight_map").members())
      file_of.emplace_back(member.key, member.value.as_text());
  } catch (const JsonError& error) {
    throw refusal(path.string(), fmt::format("is not an index of weights: {}", error.what()));
  }
  std::set<std::string> opened;
  for (const auto& [name, file] : file_of) {
    if (std::filesystem::path(file).filename() != file)
      throw refusal(path.string(), fmt::format("names `{}`, which is not a file beside it", file));
    if (opened.insert(file).second) open_file(path.parent_path() / file);
    if (find(name) == nullptr)
      throw refusal(path.string(),
                    fmt::format("says that `{}` holds `{}`; it does not", file, name));
  }
}

const StoredTensor* Weights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const StoredTensor& Weights::at(std::string_view name, std::span<const std::int64_t> shape) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    const std::optional<std::string> near = nearest(name, names());
    throw refusal(path_, fmt::format("has no tensor `{}`", name),
                  near ? fmt::format("did you mean `{}`?", *near) : "");
  }
  if (!std::ranges::equal(tensor->shape, shape))
    throw refusal(path_, fmt::format("has tensor `{}` of shape [{}], the model needs [{}]", name,
                                     fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
  if (!is_decodable(tensor->dtype))
    throw refusal(
        path_, fmt::format("has tensor `{}` in {}; weights are read in fp32, bf16 and fp16", name,
                           xt::name(tensor->dtype)));
  return *tensor;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors_) result.push_back(name);
  return result;
}

void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       Overwrite overwrite) {
  check_overwrite(path, overwrite);
  NewFile file(path);
  const std::string header = safetensors_header(tensors);
  file.append(std::as_bytes(std::span(header)));
  for (const StoredTensor& tensor : tensors) file.append(tensor.bytes);
  file.publish();
}

}  // namespace xt
