#pragma once

// One pass through one section of a schedule. Private to sim/.

#include <array>
#include <span>
#include <vector>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/units/step_clock.h"

namespace xt {

/// What is needed of an op to run it.
struct OpCost {
  Duration duration{};             ///< alone
  Duration issue{};                ///< of the host thread
  const Demand* demand = nullptr;  ///< of what it shares; null when it shares nothing
  double alone = 0;                ///< seconds that the demand takes alone
};

/// Start and end of an op, from the start of its section.
struct OpSpan {
  Duration start{};
  Duration end{};
};

/// Lane positions of a section's ops; the same for every pass.
struct SectionLanes {
  std::array<std::vector<std::uint32_t>, n_lanes> queue;  ///< op positions within the section

  SectionLanes(const Schedule& schedule, const Section& section);
};

class SectionRun {
 public:
  SectionRun(const Schedule& schedule, const Section& section, const SectionLanes& lanes,
             std::span<const OpCost> costs, bool computes_inline);

  /// Runs all ops; spans by position within the section.
  std::vector<OpSpan> run();

  /// When the last op and the host have ended.
  Duration end() const { return end_; }

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
  bool dependencies_ended(const Op& op) const;
  std::int64_t next_start();
  void start_ready();
  void share();
  double slowed(std::uint32_t op, double leaves, const std::array<double, n_resources>& load) const;
  void advance_to(std::int64_t time);
  void finish_ended();

  const Schedule& schedule_;
  const std::uint32_t begin_;
  const std::uint32_t size_;
  const SectionLanes& lanes_;
  std::span<const OpCost> costs_;
  const bool computes_inline_;

  std::vector<OpSpan> spans_;
  std::vector<std::uint8_t> has_ended_;
  std::vector<std::int64_t> issued_at_;
  std::array<std::uint32_t, n_lanes> head_{};
  std::array<bool, n_lanes> is_busy_{};
  std::array<Running, n_lanes> running_{};
  std::uint32_t issued_ = 0;  ///< ops before this position have an issue time
  bool host_blocks_ = false;  ///< the last op issued must end before the next is issued
  std::int64_t host_time_ = 0;
  std::int64_t now_ = 0;
  std::uint32_t n_ended_ = 0;
  int n_running_ = 0;
  bool has_changed_ = false;  ///< what runs is not what the speeds were shared among
  Duration end_{};
};

}  // namespace xt
