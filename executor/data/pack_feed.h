#pragma once

// The packs of a run in the order in which ranks take them, epoch after epoch, by the same code
// that the planner deals packs with.

#include <cstdint>
#include <memory>
#include <vector>

#include "costmodel/packing/deal.h"
#include "executor/data/packs.h"

namespace xt {

/// An epoch of a run: which it is, which of the run's packs is its first, and to whom its packs are
/// dealt. A run that goes on with other ranks ends the epoch in the order in which it began it.
struct DataEpoch {
  std::int64_t number = 0;
  std::int64_t first_pack = 0;
  std::int64_t ranks = 1;  ///< groups of ranks that share a pack count as one
  std::int64_t packs_per_rank = 1;

  bool operator==(const DataEpoch&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("number", number, "Counted from 0").at_least(0);
    archive.field("first_pack", first_pack, "Its first pack").at_least(0);
    archive.field("ranks", ranks, "Its packs are dealt to").at_least(1).at_most(1'000'000);
    archive.field("packs_per_rank", packs_per_rank, "In a step").at_least(1).at_most(1'000'000);
  }
};

/// To whom packs are dealt, and whether those that run at once are to cost the same.
struct FeedChoices {
  DealOptions deal;  ///< its seed is the first epoch's
  bool groups_by_length = true;
  PackLevel level = PackLevel::hard;  ///< of the packs, which decides what they are compared by
};

/// Packs by their number in the run: rank r of W takes r, r + W, …
class PackFeed {
 public:
  PackFeed(std::shared_ptr<const Packs> packs, const FeedChoices& choices);

  /// Pack `index` of the run.
  ///
  /// Assumes: indices do not fall
  /// Throws:  InputError if a token is outside the vocabulary
  Pack pack(std::int64_t index);

  /// The epoch of the last pack.
  [[nodiscard]] const DataEpoch& epoch() const { return epoch_; }
  /// Goes on in `epoch`, whatever came before.
  void enter(const DataEpoch& epoch);

 private:
  std::shared_ptr<const Packs> packs_;
  FeedChoices choices_;
  std::vector<std::int64_t> keys_;  ///< by pack, what they are grouped by
  DataEpoch epoch_;
  std::vector<std::uint32_t> order_;  ///< of the epoch
};

}  // namespace xt
