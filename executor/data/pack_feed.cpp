#include "executor/data/pack_feed.h"

#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {

PackFeed::PackFeed(std::shared_ptr<const Packs> packs, const FeedChoices& choices)
    : packs_(std::move(packs)),
      choices_(choices),
      keys_(grouping_keys(packs_->layouts(), choices.level)) {
  enter({0, 0, choices_.deal.ranks, choices_.deal.packs_per_rank});
}

void PackFeed::enter(const DataEpoch& epoch) {
  epoch_ = epoch;
  const DealOptions deal{epoch.ranks, epoch.packs_per_rank,
                         choices_.deal.seed + static_cast<std::uint64_t>(epoch.number)};
  order_ = choices_.groups_by_length ? grouped_order(keys_, deal) : plain_order(keys_.size(), deal);
}

Pack PackFeed::pack(std::int64_t index) {
  XT_CHECK(index >= epoch_.first_pack, index, epoch_.first_pack);
  while (index >= epoch_.first_pack + std::ssize(order_))
    enter({epoch_.number + 1, epoch_.first_pack + std::ssize(order_), choices_.deal.ranks,
           choices_.deal.packs_per_rank});
  return packs_->pack(order_[static_cast<std::size_t>(index - epoch_.first_pack)]);
}

}  // namespace xt
