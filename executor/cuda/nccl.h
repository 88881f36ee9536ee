#pragma once

// Groups of ranks that talk through NCCL. A collective runs in the order of the stream that is
// current when it is issued and ends there; nobody waits for it on the host.

#include <memory>

#include "executor/communicators/communicator.h"
#include "executor/communicators/rendezvous.h"

namespace xt {

/// The network of GPU `device` of this rank. Groups connect when they are made, so ranks make them
/// in one order.
///
/// Assumes: `rendezvous` outlives the network and its groups
std::unique_ptr<Network> nccl_network(Rendezvous& rendezvous, int device);

}  // namespace xt
