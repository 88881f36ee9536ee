#pragma once

// The `.idx` file of a data set in Megatron's format: where each document's tokens lie in its
// `.bin`.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace xt {

/// The type of a token in the `.bin` file, by the code of its index.
enum class TokenType : std::uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint16 = 8
};

/// Bytes of a token.
std::int64_t width(TokenType type);

/// Where each document begins in the tokens, and their type.
///
/// Units: starts in tokens, ascending, one more than documents; no document is empty
struct TokenIndex {
  TokenType type = TokenType::uint16;
  std::vector<std::int64_t> starts;
};

/// The index in `bytes`, which came from `path`.
///
/// Assumes: a little-endian machine, as the format does
/// Throws: InputError when it is damaged, of another version or of no integer type
/// Source:  Megatron-LM, megatron/core/datasets/indexed_dataset.py, index version 1
TokenIndex parse_token_index(const std::string& path, std::span<const std::byte> bytes);

/// The same for the file at `path`.
///
/// Throws: InputError, also when there is no such file
TokenIndex read_token_index(const std::filesystem::path& path);

}  // namespace xt
