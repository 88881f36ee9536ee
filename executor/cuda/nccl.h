#pragma once

// Groups of ranks that talk through NCCL. A collective runs in the order of the stream that is
// current when it is issued and ends there; nobody waits for it on the host.

#include <memory>

#include "executor/communicators/communicator.h"
#include "executor/communicators/peer_watch.h"
#include "executor/communicators/rendezvous.h"

namespace xt {

/// The network of GPU `device` of this rank. Groups connect when they are made, so ranks make them
/// in one order. `watch` has them while they live: when a rank is lost, what waits for one on the
/// device goes on, and whoever waits on the host asks the watch.
///
/// Assumes: `rendezvous` outlives the network and its groups
std::unique_ptr<Network> nccl_network(Rendezvous& rendezvous, int device,
                                      std::shared_ptr<PeerWatch> watch);

}  // namespace xt
