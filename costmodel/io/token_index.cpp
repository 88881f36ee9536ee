#include "costmodel/io/token_index.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/files.h"

namespace xt {
namespace {

constexpr std::string_view magic{"MMIDIDX\0\0", 9};

/// Reads the fields of an index one after the other.
class IndexReader {
 public:
  IndexReader(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  [[noreturn]] void refuse(std::string message) const {
    throw InputError(std::vector{error_in(path_, std::move(message))});
  }

  std::span<const std::byte> take(std::uint64_t n, std::uint64_t size) {
    if (n > bytes_.size() / size)
      refuse(fmt::format("ends too early: {} bytes left for {} entries of {}", bytes_.size(), n,
                         size));
    const std::span<const std::byte> taken = bytes_.first(n * size);
    bytes_ = bytes_.subspan(n * size);
    return taken;
  }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(1, sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  template <typename Number>
  std::vector<Number> numbers(std::uint64_t n) {
    const std::span<const std::byte> bytes = take(n, sizeof(Number));
    std::vector<Number> values(n);
    if (n > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Bytes of an element by the index's type code, from 1 on; 6 and 7 are floating point.
constexpr std::array<std::int64_t, 8> widths = {1, 1, 2, 4, 8, 0, 0, 2};

/// The positions at which documents begin: document i is sequences ends[i] to ends[i + 1], which
/// follow each other in the file.
std::vector<std::int64_t> document_starts(const IndexReader& reader, std::int64_t width,
                                          const std::vector<std::int32_t>& lengths,
                                          const std::vector<std::int64_t>& pointers,
                                          const std::vector<std::int64_t>& ends) {
  std::vector<std::int64_t> positions{0};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || pointers[i] != positions.back() * width)
      reader.refuse(fmt::format("sequence {} of {} tokens is said to begin at byte {}, not {}", i,
                                lengths[i], pointers[i], positions.back() * width));
    positions.push_back(positions.back() + lengths[i]);
  }
  std::vector<std::int64_t> starts;
  for (const std::int64_t sequence : ends) {
    if (sequence < 0 || sequence >= std::ssize(positions))
      reader.refuse(
          fmt::format("a document begins at sequence {} of {}", sequence, lengths.size()));
    const std::int64_t start = positions[static_cast<std::size_t>(sequence)];
    if (starts.empty() || start > starts.back()) starts.push_back(start);
  }
  if (starts.empty() || starts.front() != 0 || starts.back() != positions.back())
    reader.refuse("documents do not cover all sequences");
  return starts;
}

}  // namespace

std::int64_t width(TokenType type) { return widths[static_cast<std::size_t>(type) - 1]; }

TokenIndex parse_token_index(const std::string& path, std::span<const std::byte> bytes) {
  IndexReader reader(path, bytes);
  const auto head = reader.take(magic.size(), 1);
  if (std::memcmp(head.data(), magic.data(), magic.size()) != 0)
    reader.refuse("is not an index of tokens: it does not begin with `MMIDIDX`");
  const auto version = reader.number<std::uint64_t>();
  if (version != 1) reader.refuse(fmt::format("is of version {}; version 1 is read", version));
  const std::size_t code = reader.number<std::uint8_t>();
  if (code < 1 || code > widths.size() || widths[code - 1] == 0)
    reader.refuse(fmt::format("has elements of type code {}, which are no tokens", code));
  const auto type = static_cast<TokenType>(code);
  const auto n_sequences = reader.number<std::uint64_t>();
  const auto n_ends = reader.number<std::uint64_t>();
  const auto lengths = reader.numbers<std::int32_t>(n_sequences);
  const auto pointers = reader.numbers<std::int64_t>(n_sequences);
  const auto ends = reader.numbers<std::int64_t>(n_ends);
  return {type, document_starts(reader, width(type), lengths, pointers, ends)};
}

TokenIndex read_token_index(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return parse_token_index(path.string(), std::as_bytes(std::span(text)));
}

}  // namespace xt
