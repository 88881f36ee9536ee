#include "executor/data/packs.h"

#include <fmt/format.h>

#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"

namespace xt {
namespace {

std::vector<PackLayout> layouts_of(const Samples& samples, const PackingChoices& choices) {
  PackingOptions options;
  options.pack_length = choices.pack_length;
  options.level = choices.level;
  options.seed = choices.seed;
  return pack_samples(samples.lengths(), options);
}

}  // namespace

Packs::Packs(std::shared_ptr<const Documents> documents, const PackingChoices& choices,
             std::int64_t vocabulary)
    : samples_(documents, choices.longest_sample),
      choices_(choices),
      vocabulary_(vocabulary),
      layouts_(layouts_of(samples_, choices)) {
  if (layouts_.empty())
    throw InputError(fmt::format("the data has {} tokens, less than one pack of {}",
                                 n_tokens(*documents), choices_.pack_length),
                     "give more data or plan with a smaller pack length");
}

double Packs::fill_ratio() const {
  std::int64_t tokens = 0;
  for (const PackLayout& layout : layouts_) tokens += layout.tokens;
  return static_cast<double>(tokens) / static_cast<double>(size() * choices_.pack_length);
}

std::vector<std::int64_t> Packs::tokens_of(const PackedSample& piece) const {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(piece.tokens));
  samples_.copy(piece.sample, piece.first, tokens);
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      throw InputError(fmt::format("the data has token {} in document {}; the vocabulary has {}",
                                   token, samples_.document_of(piece.sample), vocabulary_));
  return tokens;
}

Pack Packs::pack(std::int64_t index) const {
  XT_CHECK(index >= 0 && index < size(), index, size());
  std::vector<std::vector<std::int64_t>> pieces;
  for (const PackedSample& piece : layouts_[static_cast<std::size_t>(index)].samples)
    pieces.push_back(tokens_of(piece));
  Pack pack = pack_of(pieces);
  pad(pack, choices_.pack_length, choices_.longest_sample);
  return pack;
}

}  // namespace xt
