#pragma once

// How long to go on repeating: until the time is up, or twice that when there are few repeats yet,
// and with all ranks stopping together.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "costmodel/report/progress.h"
#include "executor/measure/session.h"

namespace xt {

/// What is being measured, for how long, and whether to show how far it is.
struct RoundPlan {
  std::string doing;
  double budget_s = 1;
  std::int32_t least = 3;
  std::int32_t most = 25;
  bool is_shown = false;
};

/// One round after another; the first is a warm-up and counts for nothing.
class Rounds {
 public:
  Rounds(Session& session, const RoundPlan& plan)
      : session_(session),
        plan_(plan),
        began_(std::chrono::steady_clock::now()),
        progress_(std::cerr, plan.is_shown, plan.doing + ", second",
                  static_cast<std::int64_t>(plan.budget_s)) {}

  /// Whether there is another round; collective over all ranks.
  bool next() {
    show();
    const std::int32_t measured = ++started_ - 2;
    if (measured < 1) return true;
    const bool is_well_known = measured >= plan_.least;
    const bool has_time = elapsed_s() < plan_.budget_s * (is_well_known ? 1 : 2);
    return session_.agreed(has_time && measured < plan_.most ? 1 : 0) != 0;
  }

  /// Whether the round that runs is the warm-up.
  [[nodiscard]] bool is_warm_up() const { return started_ == 1; }

  /// Shows how far it is.
  void show() { progress_.update(static_cast<std::int64_t>(elapsed_s())); }

 private:
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  Session& session_;
  RoundPlan plan_;
  std::chrono::steady_clock::time_point began_;
  Progress progress_;
  std::int32_t started_ = 0;
};

}  // namespace xt
