#pragma once

// Groups of ranks that talk through Gloo, for CPUs. Gloo's all-gather and reduce-scatter are
// replaced by ones that need no hidden memory and give the same bits on every run.

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "executor/communicators/communicator.h"
#include "executor/communicators/rendezvous.h"

namespace xt {

/// This rank's network device, shared by all of its groups.
class GlooNetwork final : public Network {
 public:
  /// Ranks that meet on the loopback address stay on it; otherwise the interface is that of
  /// GLOO_SOCKET_IFNAME, or of this host's name.
  ///
  /// From here on the process ignores SIGPIPE, so that a lost peer is an error and not its end.
  ///
  /// Assumes: `rendezvous` outlives the network and its groups
  explicit GlooNetwork(Rendezvous& rendezvous,
                       std::chrono::seconds timeout = std::chrono::seconds(300));

  std::unique_ptr<Communicator> group(std::string_view name, std::span<const int> ranks) override;

 private:
  Rendezvous& rendezvous_;
  std::chrono::seconds timeout_;
  std::shared_ptr<void> device_;
};

/// The ranks of the group of `size` ranks, `stride` apart, that holds `rank`.
std::vector<int> group_members(int rank, int size, int stride);

}  // namespace xt
