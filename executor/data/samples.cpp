#include "executor/data/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"

namespace xt {

Samples::Samples(std::shared_ptr<const Documents> documents, std::int64_t longest)
    : documents_(std::move(documents)), longest_(longest) {
  XT_CHECK(longest >= 1, longest);
  for (std::int64_t document = 0; document < documents_->size(); ++document) {
    first_samples_.push_back(static_cast<std::uint32_t>(lengths_.size()));
    for (std::int64_t left = documents_->length(document); left > 0; left -= longest_)
      lengths_.push_back(std::min(left, longest_));
    if (std::ssize(lengths_) > std::numeric_limits<std::uint32_t>::max())
      throw InputError(fmt::format("the data has more than {} samples of {} tokens",
                                   std::numeric_limits<std::uint32_t>::max(), longest_),
                       "train on a part of it, or plan with longer samples");
  }
}

std::int64_t Samples::document_of(std::uint32_t sample) const {
  return std::ranges::upper_bound(first_samples_, sample) - first_samples_.begin() - 1;
}

void Samples::copy(std::uint32_t sample, std::int64_t first, std::span<std::int64_t> to) const {
  const std::int64_t document = document_of(sample);
  const std::uint32_t before = sample - first_samples_[static_cast<std::size_t>(document)];
  documents_->copy(document, before * longest_ + first, to);
}

}  // namespace xt
