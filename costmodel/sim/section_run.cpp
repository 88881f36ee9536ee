#include "costmodel/sim/section_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t compute = static_cast<std::size_t>(Lane::compute);

// Lanes behind compute carry traffic.
constexpr bool is_traffic(std::size_t lane) { return lane > compute; }

}  // namespace

Share::Share(const Demand& demand)
    : alone(xt::alone(demand).value), latency(demand.latency.value), holds(demand.holds) {
  for (std::size_t r = 0; r < n_resources; ++r) {
    const double busy = demand.busy[r].value;
    if (is_compute(static_cast<Resource>(r))) {
      computing = std::max(computing, busy);
    } else if (busy > 0) {
      traffic[n_traffic++] = {r, busy};
    }
  }
}

SectionLanes::SectionLanes(const Schedule& schedule, const Section& section)
    : next(at(section.end) - at(section.begin), none) {
  first.fill(none);
  for (std::uint32_t i = static_cast<std::uint32_t>(next.size()); i-- > 0;) {
    std::uint32_t& head = first[static_cast<std::size_t>(schedule.ops[at(section.begin) + i].lane)];
    next[i] = head;
    head = i;
  }
}

SectionRun::SectionRun(const Schedule& schedule, const Section& section, const SectionLanes& lanes,
                       std::span<const OpCost> costs, bool computes_inline)
    : schedule_(schedule),
      begin_(static_cast<std::uint32_t>(section.begin)),
      size_(static_cast<std::uint32_t>(at(section.end) - at(section.begin))),
      lanes_(lanes),
      costs_(costs),
      computes_inline_(computes_inline),
      has_ended_(size_, 0),
      wakes_(size_),
      issued_at_(size_, 0) {
  for (std::size_t lane = 0; lane < n_lanes; ++lane) enqueue(lane, lanes.first[lane]);
}

bool SectionRun::holds_host(std::uint32_t op) const {
  const Lane lane = schedule_.ops[begin_ + op].lane;
  return lane == Lane::host || (lane == Lane::compute && computes_inline_);
}

// The host issues in order until an op holds it; it goes on when that op has ended.
void SectionRun::issue() {
  while (issued_ < size_ && !host_blocks_) {
    host_time_ += costs_[issued_].issue.count();
    issued_at_[issued_] = host_time_;
    host_blocks_ = holds_host(issued_);
    ++issued_;
  }
}

// The lane runs `op` next, if that is one.
void SectionRun::enqueue(std::size_t lane, std::uint32_t op) {
  if (op == SectionLanes::none) return;
  waiting_.insert(lane);
  head_[lane] = op;
}

// Whether `op` depends on one that has not ended; the lane then sleeps until that has.
bool SectionRun::is_blocked(std::size_t lane, std::uint32_t op) {
  for (const OpId id : schedule_.dependencies_of(schedule_.ops[begin_ + op])) {
    if (at(id) < begin_ || has_ended_[at(id) - begin_] != 0) continue;
    wakes_[at(id) - begin_].insert(lane);
    waiting_.erase(lane);
    return true;
  }
  return false;
}

// Starts what can start now; the earliest later start of what only waits to be issued.
std::int64_t SectionRun::start_ready() {
  std::int64_t earliest = never;
  for (const std::size_t lane : waiting_) {
    const std::uint32_t op = head_[lane];
    if (op >= issued_ || is_blocked(lane, op)) continue;
    if (issued_at_[op] > now_) {
      earliest = std::min(earliest, issued_at_[op]);
    } else {
      start(lane, op);
    }
  }
  return earliest;
}

void SectionRun::start(std::size_t lane, std::uint32_t op) {
  const std::int64_t length = costs_[op].duration.count();
  running_[lane] = {op, now_, now_ + length, static_cast<double>(length), 1.0};
  waiting_.erase(lane);
  busy_.insert(lane);
  unshared_.insert(lane);
  traffic_changed_ |= is_traffic(lane);
}

// What the running traffic asks of links together, and what it leaves to compute.
void SectionRun::weigh_traffic() {
  double held = 0;
  load_.fill(0);
  for (const std::size_t lane : busy_) {
    const Share* share = costs_[running_[lane].op].share;
    if (!is_traffic(lane) || share == nullptr || share->alone <= 0) continue;
    held += share->holds;
    for (std::size_t i = 0; i < share->n_traffic; ++i)
      load_[share->traffic[i].resource] += share->traffic[i].busy / share->alone;
  }
  leaves_ = 1.0 - std::min(held, 0.95);
}

// How fast an op runs beside the others, 1 at full speed.
double SectionRun::speed(const Share* share) const {
  if (share == nullptr || share->alone <= 0) return 1.0;
  double moving = 0;
  for (std::size_t i = 0; i < share->n_traffic; ++i)
    moving =
        std::max(moving, share->traffic[i].busy * std::max(1.0, load_[share->traffic[i].resource]));
  const double computing = share->holds == 0 ? share->computing / leaves_ : share->computing;
  return std::min(1.0, share->alone / (share->latency + std::max(computing, moving)));
}

// Traffic shares links; compute gets what traffic leaves. An op's speed depends on the traffic
// beside it and on nothing else, so that it stands until the traffic changes.
void SectionRun::share() {
  if (traffic_changed_) {
    weigh_traffic();
    unshared_ = busy_;
    traffic_changed_ = false;
  }
  for (const std::size_t lane : unshared_) {
    Running& running = running_[lane];
    const double now = speed(costs_[running.op].share);
    if (now == running.speed) continue;
    running.speed = now;
    running.finish = now_ + static_cast<std::int64_t>(std::ceil(running.remaining / now));
  }
  unshared_ = {};
}

// The lanes whose ops have ended by then.
LaneSet SectionRun::advance_to(std::int64_t time) {
  LaneSet ended;
  const auto passed = static_cast<double>(time - now_);
  for (const std::size_t lane : busy_) {
    Running& running = running_[lane];
    running.remaining = std::max(0.0, running.remaining - passed * running.speed);
    if (running.finish <= time) ended.insert(lane);
  }
  now_ = time;
  return ended;
}

void SectionRun::end(std::size_t lane) {
  const Running& running = running_[lane];
  const std::uint32_t op = running.op;
  events_[op] = {OpId{begin_ + op}, repeat_, start_ + Duration(running.start),
                 start_ + Duration(now_)};
  has_ended_[op] = 1;
  waiting_.insert(wakes_[op]);
  ++n_ended_;
  busy_.erase(lane);
  enqueue(lane, lanes_.next[op]);
  traffic_changed_ |= is_traffic(lane);
  if (host_blocks_ && op + 1 == issued_) {
    host_blocks_ = false;
    host_time_ = now_;
  }
}

Duration SectionRun::run(std::span<Event> events, std::int32_t repeat, Instant start) {
  events_ = events;
  repeat_ = repeat;
  start_ = start;
  issue();
  while (n_ended_ < size_) {
    std::int64_t next = start_ready();
    share();
    for (const std::size_t lane : busy_) next = std::min(next, running_[lane].finish);
    XT_CHECK(next != never, n_ended_, size_);
    for (const std::size_t lane : advance_to(next)) end(lane);
    issue();
  }
  return Duration(std::max(now_, host_time_));
}

}  // namespace xt
