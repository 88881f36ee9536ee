#include <fmt/format.h>

#include <cstring>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/token_index.h"
#include "executor/data/sources.h"
#include "executor/files/mapped_file.h"

namespace xt {
namespace {

using ReadToken = std::int64_t (*)(const std::byte*);

template <typename Token>
std::int64_t read_token(const std::byte* at) {
  Token token;
  std::memcpy(&token, at, sizeof(Token));
  return static_cast<std::int64_t>(token);
}

ReadToken reader_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return read_token<std::uint8_t>;
    case TokenType::int8:
      return read_token<std::int8_t>;
    case TokenType::int16:
      return read_token<std::int16_t>;
    case TokenType::int32:
      return read_token<std::int32_t>;
    case TokenType::int64:
      return read_token<std::int64_t>;
    case TokenType::uint16:
      return read_token<std::uint16_t>;
  }
  XT_CHECK(false, static_cast<int>(type));
  return nullptr;
}

class IndexedTokens final : public Documents {
 public:
  IndexedTokens(TokenIndex index, MappedFile tokens)
      : index_(std::move(index)), read_(reader_of(index_.type)), tokens_(std::move(tokens)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(index_.starts) - 1; }
  [[nodiscard]] std::int64_t length(std::int64_t document) const override {
    return start(document + 1) - start(document);
  }
  void copy(std::int64_t document, std::int64_t first, std::span<std::int64_t> to) const override {
    const std::int64_t step = width(index_.type);
    const std::byte* from = tokens_.bytes().data() + (start(document) + first) * step;
    for (std::int64_t& token : to) {
      token = read_(from);
      from += step;
    }
  }

 private:
  [[nodiscard]] std::int64_t start(std::int64_t document) const {
    return index_.starts[static_cast<std::size_t>(document)];
  }

  TokenIndex index_;
  ReadToken read_;
  MappedFile tokens_;
};

}  // namespace

std::unique_ptr<Documents> indexed_tokens(const std::filesystem::path& path) {
  const std::string index_path = std::filesystem::path(path).replace_extension(".idx").string();
  const std::string tokens_path = std::filesystem::path(path).replace_extension(".bin").string();
  MappedFile tokens(tokens_path);
  TokenIndex index = parse_token_index(index_path, MappedFile(index_path).bytes());
  const std::int64_t needed = index.starts.back() * width(index.type);
  if (needed > std::ssize(tokens.bytes()))
    throw InputError(
        std::vector{error_in(tokens_path, fmt::format("has {} bytes; {} speaks of {}",
                                                      tokens.bytes().size(), index_path, needed))});
  return std::make_unique<IndexedTokens>(std::move(index), std::move(tokens));
}

}  // namespace xt
