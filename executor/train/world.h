#pragma once

// What the ranks of a run tell each other between steps: numbers to compare, clocks, and shards.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/units/step_clock.h"
#include "executor/communicators/communicator.h"
#include "executor/runtime/lanes.h"

namespace xt {

/// All ranks, one after the other.
class World {
 public:
  /// `all` is a group of all ranks that nothing else uses.
  explicit World(std::unique_ptr<Communicator> all) : all_(std::move(all)) {}

  [[nodiscard]] int rank() const { return all_->rank(); }
  [[nodiscard]] int size() const { return all_->size(); }

  /// The values of all ranks, rank by rank; each rank gives as many.
  ///
  /// Throws: PeerLost; all functions do
  std::vector<std::int64_t> gather(std::span<const std::int64_t> own);

  /// Returns when all ranks have called it.
  void wait();

  /// How far this rank's steady clock is ahead of rank 0's; zero where they are the same clock.
  ///
  /// Source: Cristian 1989, "Probabilistic clock synchronization": what is received was sent before
  Duration clock_skew(bool is_one_host);

 private:
  std::unique_ptr<Communicator> all_;
};

}  // namespace xt
