#include "executor/data/packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/packing/random.h"

namespace xt {
namespace {

void append_piece(Pack& pack, std::vector<std::int64_t> tokens) {
  pack.labels.insert(pack.labels.end(), tokens.begin() + 1, tokens.end());
  pack.labels.push_back(ignored_label);
  pack.tokens.insert(pack.tokens.end(), tokens.begin(), tokens.end());
  pack.boundaries.push_back(static_cast<std::int32_t>(pack.tokens.size()));
}

template <typename Visit>
void for_each_length(const Pack& pack, const Visit& visit) {
  for (std::size_t i = 1; i < pack.boundaries.size(); ++i)
    visit(std::int64_t{pack.boundaries[i]} - pack.boundaries[i - 1]);
}

}  // namespace

Pack pack_of(const std::vector<std::vector<std::int64_t>>& pieces) {
  Pack pack{{}, {}, {0}};
  for (const auto& piece : pieces) append_piece(pack, piece);
  return pack;
}

std::int64_t sum_squared_lengths(const Pack& pack) {
  std::int64_t sum = 0;
  for_each_length(pack, [&](std::int64_t length) { sum += length * length; });
  return sum;
}

std::int64_t longest_sample(const Pack& pack) {
  std::int64_t longest = 0;
  for_each_length(pack, [&](std::int64_t length) { longest = std::max(longest, length); });
  return longest;
}

std::int64_t n_valid_labels(std::span<const std::int64_t> labels) {
  return std::ssize(labels) - std::ranges::count(labels, ignored_label);
}

std::vector<std::int64_t> positions(const Pack& pack) {
  std::vector<std::int64_t> result(pack.tokens.size());
  for (std::size_t i = 1; i < pack.boundaries.size(); ++i)
    std::iota(result.begin() + pack.boundaries[i - 1], result.begin() + pack.boundaries[i], 0);
  return result;
}

Packs::Packs(std::shared_ptr<const Documents> documents, const PackShape& shape,
             std::int64_t vocabulary, std::uint64_t seed)
    : documents_(std::move(documents)), shape_(shape), vocabulary_(vocabulary), seed_(seed) {
  const std::int64_t tokens = n_tokens(*documents_);
  per_epoch_ = tokens / shape_.pack_length;
  if (per_epoch_ == 0)
    throw InputError(
        fmt::format("the data has {} tokens, less than one pack of {}", tokens, shape_.pack_length),
        "give more data or plan with a smaller pack length");
}

void Packs::shuffle(std::int64_t epoch) {
  epoch_ = epoch;
  Random random(Random(seed_).bits() + static_cast<std::uint64_t>(epoch));
  order_ = shuffled(static_cast<std::size_t>(documents_->size()), random);
  pack_order_ = shuffled(static_cast<std::size_t>(per_epoch_), random);
  ends_.clear();
  std::int64_t end = 0;
  for (const std::int64_t document : order_) ends_.push_back(end += documents_->length(document));
}

Pack Packs::pack(std::int64_t index) {
  XT_CHECK(index >= 0, index);
  if (index / per_epoch_ != epoch_) shuffle(index / per_epoch_);
  std::int64_t at = pack_order_[static_cast<std::size_t>(index % per_epoch_)] * shape_.pack_length;
  const std::int64_t end = at + shape_.pack_length;
  Pack pack{{}, {}, {0}};
  while (at < end) {
    const auto next = std::ranges::upper_bound(ends_, at);
    const std::int64_t document = order_[static_cast<std::size_t>(next - ends_.begin())];
    const std::int64_t first = documents_->length(document) - (*next - at);
    std::vector<std::int64_t> piece(
        static_cast<std::size_t>(std::min({*next - at, end - at, shape_.longest_sample})));
    documents_->copy(document, first, piece);
    for (const std::int64_t token : piece)
      if (token < 0 || token >= vocabulary_)
        throw InputError(fmt::format("the data has token {} in document {}; the vocabulary has {}",
                                     token, document, vocabulary_));
    at += std::ssize(piece);
    append_piece(pack, std::move(piece));
  }
  return pack;
}

}  // namespace xt
