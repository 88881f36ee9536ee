#include <algorithm>

#include "costmodel/diagnostics/nearest.h"
#include "costmodel/io/files.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/yaml.h"
#include "planner/plan/plan.h"

namespace xt {
namespace {

std::vector<std::string> stems(const std::filesystem::path& folder, std::string_view extension) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : files_in(folder, extension))
    names.push_back(path.stem().string());
  return names;
}

bool is_path(const std::string& text, std::string_view extension) {
  return text.find('/') != std::string::npos || text.ends_with(extension);
}

[[noreturn]] void unknown(std::string_view kind, const std::string& name,
                          const std::vector<std::string>& known) {
  throw InputError("unknown " + std::string(kind) + " `" + name + "`",
                   did_you_mean(name, known, "known are"));
}

}  // namespace

std::vector<std::string> Catalogue::model_names() const {
  return stems(root / "configs" / "models", ".json");
}

std::vector<std::string> Catalogue::machine_names() const {
  return stems(root / "profiles", ".yaml");
}

ModelConfig Catalogue::model(const std::string& name) const {
  return read<ModelConfig>(read_json(model_file(name).string()));
}

std::filesystem::path Catalogue::model_file(const std::string& name) const {
  if (is_path(name, ".json")) {
    std::filesystem::path inside = std::filesystem::path(name) / "config.json";
    return file_exists(inside) ? inside : std::filesystem::path(name);
  }
  const std::vector<std::string> known = model_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) unknown("model", name, known);
  return root / "configs" / "models" / (name + ".json");
}

Profile Catalogue::machine(const std::string& name) const {
  if (is_path(name, ".yaml")) return read<Profile>(read_yaml(name));
  const std::vector<std::string> known = machine_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) unknown("machine", name, known);
  return read<Profile>(read_yaml(root / "profiles" / (name + ".yaml")));
}

}  // namespace xt
