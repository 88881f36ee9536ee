#pragma once

// Plans of the executed engine, drawn at random as a user could ask for them, and what training by
// one gives.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "tests/executor/ranks.h"
#include "tests/planner/plans.h"

namespace xt {

/// One way to train.
struct DrawnPlan {
  std::string model;       ///< a folder of tests/oracle/data
  bool is_packed = false;  ///< several samples to a pack
  std::int64_t ranks = 1;
  test::Flags flags;

  std::string text() const;
  /// The flags that say what is learned, whoever computes it.
  test::Flags learns_by() const;
  Plan plan() const;
  /// The same model and data, trained by one rank that keeps everything and waits for nothing.
  DrawnPlan reference() const;
  /// The same layout without recompute, swap and overlap, AdamW's moments in host memory.
  DrawnPlan twin() const;
};

/// `n` plans that the planner accepts, of 1, 2 and 4 ranks, the same for the same seed.
std::vector<DrawnPlan> draw_plans(std::uint64_t seed, std::size_t n,
                                  const test::Flags& further = {});

/// What a rank saw of a run.
struct TrainedRun {
  std::vector<double> losses;
  std::uint64_t digest = 0;  ///< of losses and of this rank's trained parameters
};

/// Trains by `of` on this rank; each step's peaks of memory are required to be those of the
/// schedule, to the byte.
///
/// `name` is unique among the runs of this process. A plan of one rank is run by each on its own.
TrainedRun train_by(const DrawnPlan& of, const std::string& name, Rendezvous& rendezvous,
                    GlooNetwork& network);

}  // namespace xt
