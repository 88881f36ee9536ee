#pragma once

// One pass through one section of a schedule. Private to sim/.

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/ir/timeline.h"
#include "costmodel/units/step_clock.h"

namespace xt {

/// What an op asks of what it shares with others, laid out for being asked often.
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

/// Some of the lanes, walked in their order.
class LaneSet {
 public:
  constexpr LaneSet() = default;

  class Iterator {
   public:
    constexpr explicit Iterator(unsigned rest) : rest_(rest) {}
    constexpr std::size_t operator*() const {
      return static_cast<std::size_t>(std::countr_zero(rest_));
    }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    unsigned rest_;
  };

  constexpr void insert(std::size_t lane) { insert(LaneSet(1u << lane)); }
  constexpr void insert(LaneSet lanes) { bits_ = static_cast<std::uint8_t>(bits_ | lanes.bits_); }
  constexpr void erase(std::size_t lane) {
    bits_ = static_cast<std::uint8_t>(bits_ & ~(1u << lane));
  }
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }

 private:
  constexpr explicit LaneSet(unsigned bits) : bits_(static_cast<std::uint8_t>(bits)) {}

  std::uint8_t bits_ = 0;
  static_assert(n_lanes <= 8);
};

/// The queues of a section as positions within it; the same for every pass.
struct SectionLanes {
  static constexpr std::uint32_t none = 0xffffffff;

  std::array<std::uint32_t, n_lanes> first{};  ///< op of each lane
  std::vector<std::uint32_t> next;             ///< by op: the one behind it on its lane

  SectionLanes(const Schedule& schedule, const Section& section);
};

/// Runs the ops of a section once.
class SectionRun {
 public:
  SectionRun(const Schedule& schedule, const Section& section, const SectionLanes& lanes,
             std::span<const OpCost> costs, bool computes_inline);

  /// Runs all ops; writes one event per op, in issue order, as repetition `repeat` begun at
  /// `start`. Returns how long the section took.
  Duration run(std::span<Event> events, std::int32_t repeat, Instant start);

 private:
  struct Running {
    std::uint32_t op = 0;
    std::int64_t start = 0;
    std::int64_t finish = 0;
    double remaining = 0;  ///< nanoseconds at full speed, as of the last change
    double speed = 1;
  };

  bool holds_host(std::uint32_t op) const;
  void issue();
  void enqueue(std::size_t lane, std::uint32_t op);
  bool is_blocked(std::size_t lane, std::uint32_t op);
  std::int64_t start_ready();
  void start(std::size_t lane, std::uint32_t op);
  void weigh_traffic();
  double speed(const Share* share) const;
  void share();
  LaneSet advance_to(std::int64_t time);
  void end(std::size_t lane);

  const Schedule& schedule_;
  const std::uint32_t begin_;
  const std::uint32_t size_;
  const SectionLanes& lanes_;
  std::span<const OpCost> costs_;
  const bool computes_inline_;

  std::vector<std::uint8_t> has_ended_;
  std::vector<LaneSet> wakes_;  ///< by op: lanes that wait for it
  std::vector<std::int64_t> issued_at_;
  std::uint32_t issued_ = 0;  ///< ops before this position have an issue time
  bool host_blocks_ = false;  ///< the last op issued must end before the next is issued
  std::int64_t host_time_ = 0;

  LaneSet busy_;                               ///< lanes on which an op runs
  LaneSet waiting_;                            ///< lanes on which none runs, and the next may start
  std::array<std::uint32_t, n_lanes> head_{};  ///< of lanes that are not busy: what runs next
  std::array<Running, n_lanes> running_{};     ///< of busy lanes

  LaneSet unshared_;              ///< busy lanes whose speed is to be found
  bool traffic_changed_ = false;  ///< since it was weighed
  std::array<double, n_resources> load_{};
  double leaves_ = 1;  ///< of the compute resources to who computes

  std::int64_t now_ = 0;
  std::uint32_t n_ended_ = 0;
  std::span<Event> events_;
  std::int32_t repeat_ = 0;
  Instant start_;
};

}  // namespace xt
