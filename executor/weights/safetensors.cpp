#include "executor/weights/safetensors.h"

#include <fmt/format.h>

#include <set>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"
#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "executor/weights/elements.h"

namespace xt {

namespace {

constexpr std::string_view index_suffix = ".index.json";

InputError refusal(const std::string& path, std::string message, std::string hint = {}) {
  return InputError(std::vector{error_in(path, std::move(message), std::move(hint))});
}

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

}  // namespace xt
