#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/data/sources.h"
#include "executor/files/mapped_file.h"

namespace xt {
namespace {

using Bytes8 = TokensInMemory<std::uint8_t>;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// Bytes up to and with the next blank line and the line breaks that follow it.
std::size_t document_length(std::string_view text) {
  const std::size_t blank = text.find("\n\n");
  if (blank == std::string_view::npos) return text.size();
  const std::size_t next = text.find_first_not_of('\n', blank);
  return next == std::string_view::npos ? text.size() : next;
}

}  // namespace

bool is_text(std::string_view bytes) { return bytes.find('\0') == std::string_view::npos; }

std::unique_ptr<Documents> text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view text = text_of(file);
  if (!is_text(text))
    throw InputError(std::vector{
        error_in(path.string(), "holds zero bytes, so it is not text",
                 "tokens come as .jsonl with `input_ids`, or as a pair of .bin and .idx")});
  auto documents = std::make_unique<Bytes8>();
  while (!text.empty()) {
    const std::size_t length = document_length(text);
    documents->begin_document();
    documents->append_all(text.substr(0, length));
    text.remove_prefix(length);
  }
  return documents;
}

std::unique_ptr<Documents> text_files(std::span<const std::filesystem::path> paths) {
  auto documents = std::make_unique<Bytes8>();
  for (const std::filesystem::path& path : paths) {
    const MappedFile file(path);
    if (!is_text(text_of(file))) continue;
    documents->begin_document();
    documents->append_all(text_of(file));
  }
  return documents;
}

}  // namespace xt
