#pragma once

// All packs of some documents: which samples they hold is decided by the same code that the planner
// draws packs with, and the tokens are copied when a pack is asked for.

#include <cstdint>
#include <memory>
#include <vector>

#include "costmodel/packing/packs.h"
#include "executor/data/documents.h"
#include "executor/data/pack.h"
#include "executor/data/samples.h"

namespace xt {

/// How a plan packs its data.
///
/// Units: tokens
struct PackingChoices {
  std::int64_t pack_length = 0;
  std::int64_t longest_sample = 0;
  PackLevel level = PackLevel::hard;
  std::uint64_t seed = 0;
};

/// The packs of documents, all of one length. Documents longer than a sample are several samples;
/// see pack_samples() for what goes into which pack. What samples leave of a pack is padding.
/// Immutable.
class Packs {
 public:
  /// Throws: InputError if the documents fill no pack, or are too many
  Packs(std::shared_ptr<const Documents> documents, const PackingChoices& choices,
        std::int64_t vocabulary);

  [[nodiscard]] std::int64_t size() const { return std::ssize(layouts_); }
  [[nodiscard]] const std::vector<PackLayout>& layouts() const { return layouts_; }
  /// Tokens of samples over tokens of packs.
  [[nodiscard]] double fill_ratio() const;

  /// Pack `index`.
  ///
  /// Throws: InputError if a token is outside the vocabulary
  [[nodiscard]] Pack pack(std::int64_t index) const;

 private:
  std::vector<std::int64_t> tokens_of(const PackedSample& piece) const;

  Samples samples_;
  PackingChoices choices_;
  std::int64_t vocabulary_;
  std::vector<PackLayout> layouts_;
};

}  // namespace xt
