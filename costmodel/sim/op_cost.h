#pragma once

// What the simulation needs to know of an op, laid out for being asked often. Private to sim/.

#include <array>
#include <cstdint>
#include <span>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/units/step_clock.h"

namespace xt {

/// What an op asks of what it shares with others.
struct Share {
  struct Traffic {
    std::size_t resource = 0;
    double busy = 0;
  };

  double alone = 0;      ///< seconds that the op takes alone; 0 or less shares nothing
  double latency = 0;    ///< seconds
  double computing = 0;  ///< seconds of the busiest compute resource
  double holds = 0;      ///< of the compute resources
  std::size_t n_traffic = 0;
  std::array<Traffic, n_resources> traffic{};  ///< resources that are no compute and are asked for

  explicit Share(const Demand& demand);
};

/// What is needed of an op to run it.
struct OpCost {
  Duration duration{};           ///< alone
  Duration issue{};              ///< of the host thread
  const Share* share = nullptr;  ///< null when it shares nothing
};

/// The costs of a section's ops: those of their works, or each its own.
class OpCosts {
 public:
  /// `costs` by WorkId.
  static OpCosts by_work(std::span<const OpCost> costs) { return {costs, true}; }
  /// `costs` by position within the section.
  static OpCosts by_position(std::span<const OpCost> costs) { return {costs, false}; }

  const OpCost& of(const Op& op, std::uint32_t position) const {
    return costs_[is_by_work_ ? at(op.work) : position];
  }

 private:
  OpCosts(std::span<const OpCost> costs, bool is_by_work)
      : costs_(costs), is_by_work_(is_by_work) {}

  std::span<const OpCost> costs_;
  bool is_by_work_;
};

}  // namespace xt
