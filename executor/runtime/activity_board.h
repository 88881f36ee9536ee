#pragma once

// What each rank of a host is at, in memory that its launcher shares: of a rank that was killed it
// says what it was killed at.

#include <string>

#include "costmodel/ir/schedule.h"
#include "executor/runtime/execute.h"

namespace xt {

/// One StepActivity a rank.
class ActivityBoard {
 public:
  /// A new board, which processes that this one starts inherit by its descriptor.
  ///
  /// Throws: std::system_error
  explicit ActivityBoard(int n_ranks);
  /// The board that this process inherited as `descriptor`.
  ///
  /// Throws: std::system_error
  ActivityBoard(int n_ranks, int descriptor);
  ~ActivityBoard();
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The place of the rank that is `local_rank`-th on this host.
  [[nodiscard]] StepActivity& of(int local_rank) const;

 private:
  void map();

  int n_ranks_;
  int descriptor_;
  void* start_ = nullptr;
};

/// Where a rank stands by its `activity`, in words.
std::string describe(const StepActivity& activity, const Schedule& schedule);

}  // namespace xt
