#include "costmodel/sim/section_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t host = static_cast<std::size_t>(Lane::host);
constexpr std::size_t compute = static_cast<std::size_t>(Lane::compute);

}  // namespace

SectionLanes::SectionLanes(const Schedule& schedule, const Section& section) {
  for (std::size_t i = at(section.begin); i < at(section.end); ++i)
    queue[static_cast<std::size_t>(schedule.ops[i].lane)].push_back(
        static_cast<std::uint32_t>(i - at(section.begin)));
}

SectionRun::SectionRun(const Schedule& schedule, const Section& section, const SectionLanes& lanes,
                       std::span<const OpCost> costs, bool computes_inline)
    : schedule_(schedule),
      begin_(static_cast<std::uint32_t>(section.begin)),
      size_(static_cast<std::uint32_t>(at(section.end) - at(section.begin))),
      lanes_(lanes),
      costs_(costs),
      computes_inline_(computes_inline),
      spans_(size_),
      has_ended_(size_, 0),
      issued_at_(size_, 0) {}

bool SectionRun::holds_host(std::uint32_t op) const {
  const Lane lane = schedule_.ops[begin_ + op].lane;
  return lane == Lane::host || (lane == Lane::compute && computes_inline_);
}

// The host issues in order until an op holds it; it goes on when that op has ended.
void SectionRun::issue() {
  if (host_blocks_) return;
  while (issued_ < size_ && !host_blocks_) {
    host_time_ += costs_[issued_].issue.count();
    issued_at_[issued_] = host_time_;
    host_blocks_ = holds_host(issued_);
    ++issued_;
  }
}

bool SectionRun::dependencies_ended(const Op& op) const {
  for (const OpId dependency : schedule_.dependencies_of(op)) {
    const std::size_t i = at(dependency);
    if (i >= begin_ && has_ended_[i - begin_] == 0) return false;
  }
  return true;
}

// Starts what can start now; the earliest later start of what only waits to be issued.
std::int64_t SectionRun::next_start() {
  std::int64_t earliest = never;
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    if (is_busy_[lane] || head_[lane] >= lanes_.queue[lane].size()) continue;
    const std::uint32_t op = lanes_.queue[lane][head_[lane]];
    if (op >= issued_ || !dependencies_ended(schedule_.ops[begin_ + op])) continue;
    if (issued_at_[op] > now_) {
      earliest = std::min(earliest, issued_at_[op]);
      continue;
    }
    const std::int64_t length = costs_[op].duration.count();
    running_[lane] = {op, now_, now_ + length, static_cast<double>(length), 1.0};
    is_busy_[lane] = true;
    ++n_running_;
    has_changed_ = true;
  }
  return earliest;
}

// How fast an op runs beside the others, 1 at full speed; compute gets the part `leaves` of its
// resources.
double SectionRun::slowed(std::uint32_t op, double leaves,
                          const std::array<double, n_resources>& load) const {
  const Demand& demand = *costs_[op].demand;
  const double whole = costs_[op].alone;
  if (whole <= 0) return 1.0;
  double computing = 0, moving = 0;
  for (std::size_t r = 0; r < n_resources; ++r) {
    const double busy = demand.busy[r].value;
    if (is_compute(static_cast<Resource>(r))) {
      computing = std::max(computing, busy);
    } else {
      moving = std::max(moving, busy * std::max(1.0, load[r]));
    }
  }
  if (demand.holds == 0) computing /= leaves;
  return std::min(1.0, whole / (demand.latency.value + std::max(computing, moving)));
}

// Traffic shares links; compute gets what traffic leaves.
void SectionRun::share() {
  if (!has_changed_) return;
  has_changed_ = false;
  double held = 0;
  std::array<double, n_resources> load{};
  if (n_running_ > 1) {
    for (std::size_t lane = compute + 1; lane < n_lanes; ++lane) {
      if (!is_busy_[lane]) continue;
      const OpCost& cost = costs_[running_[lane].op];
      if (cost.demand == nullptr || cost.alone <= 0) continue;
      held += cost.demand->holds;
      for (std::size_t r = 0; r < n_resources; ++r)
        if (!is_compute(static_cast<Resource>(r)))
          load[r] += cost.demand->busy[r].value / cost.alone;
    }
  }
  const double leaves = 1.0 - std::min(held, 0.95);
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    if (!is_busy_[lane]) continue;
    Running& running = running_[lane];
    const bool is_alone = n_running_ == 1 || costs_[running.op].demand == nullptr;
    const double speed = is_alone ? 1.0 : slowed(running.op, leaves, load);
    if (speed == running.speed) continue;
    running.speed = speed;
    running.finish = now_ + static_cast<std::int64_t>(std::ceil(running.remaining / speed));
  }
}

void SectionRun::advance_to(std::int64_t time) {
  const auto passed = static_cast<double>(time - now_);
  for (std::size_t lane = 0; lane < n_lanes; ++lane)
    if (is_busy_[lane])
      running_[lane].remaining =
          std::max(0.0, running_[lane].remaining - passed * running_[lane].speed);
  now_ = time;
}

void SectionRun::finish_ended() {
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    if (!is_busy_[lane] || running_[lane].finish > now_) continue;
    const std::uint32_t op = running_[lane].op;
    spans_[op] = {Duration(running_[lane].start), Duration(now_)};
    has_ended_[op] = 1;
    is_busy_[lane] = false;
    ++head_[lane];
    ++n_ended_;
    --n_running_;
    has_changed_ = true;
    if (host_blocks_ && op + 1 == issued_) {
      host_blocks_ = false;
      host_time_ = now_;
    }
  }
}

std::vector<OpSpan> SectionRun::run() {
  issue();
  while (n_ended_ < size_) {
    std::int64_t next = next_start();
    share();
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      if (is_busy_[lane]) next = std::min(next, running_[lane].finish);
    XT_CHECK(next != never, n_ended_, size_);
    advance_to(next);
    finish_ended();
    issue();
  }
  end_ = Duration(std::max(now_, host_time_));
  return std::move(spans_);
}

}  // namespace xt
