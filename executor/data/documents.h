#pragma once

// Training text as documents of tokens, whatever files it came from. Tokenises nothing but bytes:
// a text file's tokens are its bytes.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace xt {

/// Documents by number. Immutable.
class Documents {
 public:
  Documents() = default;
  virtual ~Documents() = default;
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  /// How many documents there are; none is empty.
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// The tokens of `document`.
  [[nodiscard]] virtual std::int64_t length(std::int64_t document) const = 0;

  /// Copies tokens of `document`, from token `first` on, into `to`.
  ///
  /// Assumes: the document has as many
  virtual void copy(std::int64_t document, std::int64_t first,
                    std::span<std::int64_t> to) const = 0;
};

/// The tokens of all documents.
std::int64_t n_tokens(const Documents& documents);

/// All documents of `paths`, in the order given. Each path is one of
///
///   FILE.jsonl            a line a document, `{"input_ids": [1, 2, …]}`
///   FILE.bin or FILE.idx  the pair of files that Megatron's preprocessing writes
///   FOLDER                the files below it, sorted by path; those with a zero byte are not text
///                         and are left out, as are hidden ones
///   any other file        text; its tokens are its bytes
///
/// A text file in a folder is one document; a text file named by itself is split into documents
/// after each blank line.
///
/// Throws: InputError if a path is missing, damaged or holds no token
std::unique_ptr<Documents> load_documents(std::span<const std::filesystem::path> paths);

}  // namespace xt
