#include "executor/communicators/communicator.h"

#include <fmt/format.h>

namespace xt {
namespace {

std::string sentence(const std::string& op, std::optional<int> lost_rank,
                     const std::string& reason) {
  if (lost_rank) return fmt::format("rank {} was lost during {} ({})", *lost_rank, op, reason);
  return fmt::format("a rank was lost during {} ({})", op, reason);
}

}  // namespace

PeerLost::PeerLost(std::string op, std::optional<int> lost_rank, const std::string& reason)
    : std::runtime_error(sentence(op, lost_rank, reason)),
      op_(std::move(op)),
      lost_rank_(lost_rank) {}

}  // namespace xt
