#include <fmt/format.h>

#include <array>
#include <cstring>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/data/sources.h"
#include "executor/files/mapped_file.h"

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

using ReadToken = std::int64_t (*)(const std::byte*);

template <typename Token>
std::int64_t read_token(const std::byte* at) {
  Token token;
  std::memcpy(&token, at, sizeof(Token));
  return static_cast<std::int64_t>(token);
}

/// The integer types of the index's type codes from 1 on; 6 and 7 are floating point.
struct TokenType {
  std::int64_t width;
  ReadToken read;
};
constexpr std::array<TokenType, 8> token_types = {{{1, read_token<std::uint8_t>},
                                                   {1, read_token<std::int8_t>},
                                                   {2, read_token<std::int16_t>},
                                                   {4, read_token<std::int32_t>},
                                                   {8, read_token<std::int64_t>},
                                                   {0, nullptr},
                                                   {0, nullptr},
                                                   {2, read_token<std::uint16_t>}}};

/// Where each document begins in the tokens file, and the type of the tokens.
struct Index {
  TokenType type;
  std::vector<std::int64_t> starts;  ///< in tokens, one more than documents
};

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

Index read_index(const std::string& path, std::span<const std::byte> bytes) {
  IndexReader reader(path, bytes);
  const auto head = reader.take(magic.size(), 1);
  if (std::memcmp(head.data(), magic.data(), magic.size()) != 0)
    reader.refuse("is not an index of tokens: it does not begin with `MMIDIDX`");
  const auto version = reader.number<std::uint64_t>();
  if (version != 1) reader.refuse(fmt::format("is of version {}; version 1 is read", version));
  const std::size_t code = reader.number<std::uint8_t>();
  if (code < 1 || code > token_types.size() || token_types[code - 1].read == nullptr)
    reader.refuse(fmt::format("has elements of type code {}, which are no tokens", code));
  const TokenType type = token_types[code - 1];
  const auto n_sequences = reader.number<std::uint64_t>();
  const auto n_ends = reader.number<std::uint64_t>();
  const auto lengths = reader.numbers<std::int32_t>(n_sequences);
  const auto pointers = reader.numbers<std::int64_t>(n_sequences);
  const auto ends = reader.numbers<std::int64_t>(n_ends);
  return {type, document_starts(reader, type.width, lengths, pointers, ends)};
}

class IndexedTokens final : public Documents {
 public:
  IndexedTokens(Index index, MappedFile tokens)
      : index_(std::move(index)), tokens_(std::move(tokens)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(index_.starts) - 1; }
  [[nodiscard]] std::int64_t length(std::int64_t document) const override {
    return start(document + 1) - start(document);
  }
  void copy(std::int64_t document, std::int64_t first, std::span<std::int64_t> to) const override {
    const std::byte* from = tokens_.bytes().data() + (start(document) + first) * index_.type.width;
    for (std::int64_t& token : to) {
      token = index_.type.read(from);
      from += index_.type.width;
    }
  }

 private:
  [[nodiscard]] std::int64_t start(std::int64_t document) const {
    return index_.starts[static_cast<std::size_t>(document)];
  }

  Index index_;
  MappedFile tokens_;
};

}  // namespace

std::unique_ptr<Documents> indexed_tokens(const std::filesystem::path& path) {
  const std::string index_path = std::filesystem::path(path).replace_extension(".idx").string();
  const std::string tokens_path = std::filesystem::path(path).replace_extension(".bin").string();
  MappedFile tokens(tokens_path);
  Index index = read_index(index_path, MappedFile(index_path).bytes());
  const std::int64_t needed = index.starts.back() * index.type.width;
  if (needed > std::ssize(tokens.bytes()))
    throw InputError(
        std::vector{error_in(tokens_path, fmt::format("has {} bytes; {} speaks of {}",
                                                      tokens.bytes().size(), index_path, needed))});
  return std::make_unique<IndexedTokens>(std::move(index), std::move(tokens));
}

}  // namespace xt
