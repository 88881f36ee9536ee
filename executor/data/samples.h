#pragma once

// Documents as samples: what packs are filled with. A document longer than a sample is several, so
// that no token is lost.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/data/documents.h"

namespace xt {

/// Documents cut into samples of at most so many tokens. A document's samples are numbered one
/// after the other; all but its last are full. Immutable.
class Samples {
 public:
  /// Assumes: longest ≥ 1
  /// Throws:  InputError if there are more samples than 32 bits count
  Samples(std::shared_ptr<const Documents> documents, std::int64_t longest);

  /// Tokens of each sample.
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// The document that `sample` is of.
  [[nodiscard]] std::int64_t document_of(std::uint32_t sample) const;
  /// Copies tokens of `sample`, from its token `first` on, into `to`.
  ///
  /// Assumes: the sample has as many
  void copy(std::uint32_t sample, std::int64_t first, std::span<std::int64_t> to) const;

 private:
  std::shared_ptr<const Documents> documents_;
  std::int64_t longest_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::uint32_t> first_samples_;  ///< by document
};

}  // namespace xt
