#pragma once

// Documents as packs: rows of one length, filled without padding, in an order that only the seed
// decides. Attention stays inside a document, and so do labels.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/data/documents.h"

namespace xt {

/// The label of a token whose successor is not to be predicted.
inline constexpr std::int64_t ignored_label = -100;

/// One row of a batch: pieces of documents, one after the other.
///
/// Shapes: tokens [T], labels [T]; piece i is tokens boundaries[i] to boundaries[i + 1]
struct Pack {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;      ///< next token of the same piece; of its last: ignored
  std::vector<std::int32_t> boundaries;  ///< 0, …, T

  bool operator==(const Pack&) const = default;
};

/// The pack of `pieces` in this order.
Pack pack_of(const std::vector<std::vector<std::int64_t>>& pieces);

/// The sum over pieces of their squared lengths: what causal attention costs.
std::int64_t sum_squared_lengths(const Pack& pack);

/// The length of the longest piece.
std::int64_t longest_sample(const Pack& pack);

/// Labels that are not ignored.
std::int64_t n_valid_labels(std::span<const std::int64_t> labels);

/// The position of each token in its piece.
std::vector<std::int64_t> positions(const Pack& pack);

/// Tokens of a pack, and the most of one of its samples.
struct PackShape {
  std::int64_t pack_length = 0;
  std::int64_t longest_sample = 0;
};

/// All packs of some documents. An epoch is a shuffle of the documents, written one after the
/// other and cut into packs: a document that does not fit goes on in the next pack as a piece of
/// its own, and the rest of an epoch that fills no pack is left out. The packs come in a shuffled
/// order of their own, so that those of one long document do not follow each other. No piece is
/// longer than a sample of the plan; what is left of its document is the next piece. Numbers go on
/// over epochs, so rank r of W takes packs r, r + W, …
class Packs {
 public:
  /// Throws: InputError if the documents fill no pack
  Packs(std::shared_ptr<const Documents> documents, const PackShape& shape, std::int64_t vocabulary,
        std::uint64_t seed);

  /// Packs of one epoch.
  [[nodiscard]] std::int64_t per_epoch() const { return per_epoch_; }

  /// Pack `index`, the same whatever was asked for before.
  ///
  /// Throws: InputError if a token is outside the vocabulary
  Pack pack(std::int64_t index);

 private:
  void shuffle(std::int64_t epoch);

  std::shared_ptr<const Documents> documents_;
  PackShape shape_;
  std::int64_t vocabulary_;
  std::uint64_t seed_;
  std::int64_t per_epoch_ = 0;
  std::int64_t epoch_ = -1;
  std::vector<std::uint32_t> order_;       ///< of the epoch's documents
  std::vector<std::uint32_t> pack_order_;  ///< of its packs
  std::vector<std::int64_t> ends_;         ///< tokens up to and with order_[i]
};

}  // namespace xt
