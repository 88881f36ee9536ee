#pragma once

// The ranks that measure together: in step before each measurement, of one mind about when to
// stop, and with all their numbers in one place at the end.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/communicators/gloo.h"
#include "executor/communicators/rendezvous.h"
#include "executor/measure/bench.h"
#include "executor/measure/samples.h"

namespace xt {

/// One rank of a measurement.
class Session {
 public:
  /// Throws: PeerLost if a rank does not come
  Session(const RankEnvironment& place, BenchDevice device);

  [[nodiscard]] int rank() const { return rendezvous_.place().rank; }
  [[nodiscard]] int n_ranks() const { return rendezvous_.place().world_size; }
  [[nodiscard]] Bench& bench() { return bench_; }

  /// A group of `size` neighbouring ranks over the network of the bench's device; all ranks make
  /// their groups in the same order.
  ///
  /// Assumes: size divides the number of ranks
  std::unique_ptr<Communicator> group(const std::string& name, int size);

  /// Returns when every rank has come here.
  void barrier() { world_->barrier()->wait(); }

  /// What rank 0 passed.
  double agreed(double of_rank_0);

  /// The values of all ranks together.
  ///
  /// Assumes: every rank passes as many
  std::vector<double> gathered(std::span<const double> values);

  /// The repeats of all ranks together, for each of `all`.
  ///
  /// Assumes: every rank passes as many
  void gather(std::span<Samples> all);

 private:
  Rendezvous rendezvous_;
  GlooNetwork network_;
  std::unique_ptr<Communicator> world_;
  Bench bench_;
  std::unique_ptr<Network> device_network_;  ///< null where tensors travel over Gloo
};

}  // namespace xt
