#pragma once

// The kinds of files that documents come from, one file each.

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "executor/data/documents.h"

namespace xt {

/// Documents whose tokens lie one after the other in memory.
template <typename Token>
class TokensInMemory final : public Documents {
 public:
  /// Begins a document with what is appended next; a document without tokens is none.
  void begin_document() {
    if (starts_.back() != std::ssize(tokens_)) starts_.push_back(std::ssize(tokens_));
  }
  void append(Token token) { tokens_.push_back(token); }
  template <typename Range>
  void append_all(const Range& tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  [[nodiscard]] std::int64_t size() const override {
    return std::ssize(starts_) - (starts_.back() == std::ssize(tokens_) ? 1 : 0);
  }
  [[nodiscard]] std::int64_t length(std::int64_t document) const override {
    const std::size_t next = static_cast<std::size_t>(document) + 1;
    return (next < starts_.size() ? starts_[next] : std::ssize(tokens_)) - starts_[next - 1];
  }
  void copy(std::int64_t document, std::int64_t first, std::span<std::int64_t> to) const override {
    auto from = tokens_.begin() + starts_[static_cast<std::size_t>(document)] + first;
    for (std::int64_t& token : to) token = static_cast<std::int64_t>(*from++);
  }

 private:
  std::vector<Token> tokens_;
  std::vector<std::int64_t> starts_{0};
};

/// Whether `bytes` hold text: anything without a zero byte.
bool is_text(std::string_view bytes);

/// The text file at `path`, split into documents after each blank line.
std::unique_ptr<Documents> text_file(const std::filesystem::path& path);

/// The text files `paths`, each one document; those that are not text are left out.
std::unique_ptr<Documents> text_files(std::span<const std::filesystem::path> paths);

/// A file of lines `{"input_ids": [...]}`.
std::unique_ptr<Documents> token_lines(const std::filesystem::path& path);

/// A pair `.bin` and `.idx` (see TokenIndex), by the name of either.
std::unique_ptr<Documents> indexed_tokens(const std::filesystem::path& path);

}  // namespace xt
