#include "executor/data/documents.h"

#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/data/sources.h"

namespace xt {
namespace {

namespace fs = std::filesystem;

/// Documents of several sources, numbered through.
class Joined final : public Documents {
 public:
  void add(std::unique_ptr<Documents> part) {
    if (part->size() == 0) return;
    ends_.push_back(size() + part->size());
    parts_.push_back(std::move(part));
  }

  [[nodiscard]] std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::int64_t length(std::int64_t document) const override {
    const auto [part, own] = find(document);
    return part->length(own);
  }
  void copy(std::int64_t document, std::int64_t first, std::span<std::int64_t> to) const override {
    const auto [part, own] = find(document);
    part->copy(own, first, to);
  }

 private:
  /// The part that holds `document`, and its number there.
  [[nodiscard]] std::pair<const Documents*, std::int64_t> find(std::int64_t document) const {
    const auto end = std::ranges::upper_bound(ends_, document);
    const auto part = static_cast<std::size_t>(end - ends_.begin());
    return {parts_[part].get(), document - (part == 0 ? 0 : ends_[part - 1])};
  }

  std::vector<std::unique_ptr<Documents>> parts_;
  std::vector<std::int64_t> ends_;
};

bool is_token_lines(const fs::path& path) { return path.extension() == ".jsonl"; }
bool is_indexed(const fs::path& path) {
  return path.extension() == ".bin" || path.extension() == ".idx";
}

/// The files below `folder` in order of their paths, without hidden ones.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(folder, options); entry != fs::end(entry);
       ++entry) {
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (is_hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!is_hidden && entry->is_regular_file()) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

void add_folder(Joined& all, const fs::path& folder) {
  std::vector<fs::path> text;
  for (const fs::path& file : files_below(folder)) {
    const bool is_second_of_pair =
        file.extension() == ".idx" && fs::exists(fs::path(file).replace_extension(".bin"));
    if (is_second_of_pair) continue;
    if (is_token_lines(file))
      all.add(token_lines(file));
    else if (is_indexed(file))
      all.add(indexed_tokens(file));
    else
      text.push_back(file);
  }
  all.add(text_files(text));
}

void add_path(Joined& all, const fs::path& path) {
  if (fs::is_directory(path)) return add_folder(all, path);
  if (is_token_lines(path)) return all.add(token_lines(path));
  if (is_indexed(path)) return all.add(indexed_tokens(path));
  all.add(text_file(path));
}

}  // namespace

std::int64_t n_tokens(const Documents& documents) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < documents.size(); ++i) n += documents.length(i);
  return n;
}

std::unique_ptr<Documents> load_documents(std::span<const fs::path> paths) {
  auto all = std::make_unique<Joined>();
  for (const fs::path& path : paths) {
    const std::int64_t before = all->size();
    add_path(*all, path);
    if (all->size() == before)
      throw InputError(std::vector{error_in(path.string(), "holds no text and no tokens")});
  }
  return all;
}

}  // namespace xt
