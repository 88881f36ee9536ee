#include "costmodel/sim/section_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/diagnostics/check.h"
#include "costmodel/sim/lane_set.h"

namespace xt {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t compute = static_cast<std::size_t>(Lane::compute);

// Lanes behind compute carry traffic.
constexpr bool is_traffic(std::size_t lane) { return lane > compute; }

class SectionRun {
 public:
  SectionRun(const SectionPass& pass, std::span<Event> events, std::int32_t repeat, Instant start);

  Duration run();

 private:
  struct Running {
    std::uint32_t op = 0;
    const Share* share = nullptr;
    std::int64_t start = 0;
    std::int64_t finish = 0;
    double remaining = 0;  ///< nanoseconds at full speed, as of the last change
    double speed = 1;
  };

  const Op& op_at(std::uint32_t position) const { return pass_.schedule.ops[begin_ + position]; }
  bool holds_host(Lane lane) const;
  void issue();
  void enqueue(std::size_t lane, std::uint32_t op);
  bool is_blocked(std::size_t lane, std::uint32_t op);
  std::int64_t start_ready();
  void start(std::size_t lane, std::uint32_t op);
  void weigh_traffic();
  double slowed(const Share* share) const;
  void share();
  LaneSet advance_to(std::int64_t time);
  void end(std::size_t lane);

  const SectionPass& pass_;
  const std::uint32_t begin_;
  const std::uint32_t size_;

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
  bool has_traffic_ = false;      ///< that shares anything
  std::array<double, n_resources> load_{};
  double leaves_ = 1;  ///< of the compute resources to who computes

  std::int64_t now_ = 0;
  std::uint32_t n_ended_ = 0;
  const std::span<Event> events_;
  const std::int32_t repeat_;
  const Instant start_;
};

SectionRun::SectionRun(const SectionPass& pass, std::span<Event> events, std::int32_t repeat,
                       Instant start)
    : pass_(pass),
      begin_(static_cast<std::uint32_t>(pass.section.begin)),
      size_(static_cast<std::uint32_t>(events.size())),
      has_ended_(size_, 0),
      wakes_(size_),
      issued_at_(size_, 0),
      events_(events),
      repeat_(repeat),
      start_(start) {
  for (std::size_t lane = 0; lane < n_lanes; ++lane) enqueue(lane, pass.lanes.first[lane]);
}

bool SectionRun::holds_host(Lane lane) const {
  return lane == Lane::host || (lane == Lane::compute && pass_.computes_inline);
}

// The host issues in order until an op holds it; it goes on when that op has ended.
void SectionRun::issue() {
  for (; issued_ < size_ && !host_blocks_; ++issued_) {
    const Op& op = op_at(issued_);
    host_time_ += pass_.costs.of(op, issued_).issue.count();
    issued_at_[issued_] = host_time_;
    host_blocks_ = holds_host(op.lane);
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
  for (const OpId id : pass_.schedule.dependencies_of(op_at(op))) {
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
  const OpCost& cost = pass_.costs.of(op_at(op), op);
  const std::int64_t length = cost.duration.count();
  running_[lane] = {op, cost.share, now_, now_ + length, static_cast<double>(length), 1.0};
  waiting_.erase(lane);
  busy_.insert(lane);
  unshared_.insert(lane);
  traffic_changed_ |= is_traffic(lane);
}

// What the running traffic asks of links together, and what it leaves to compute.
void SectionRun::weigh_traffic() {
  double held = 0;
  load_.fill(0);
  has_traffic_ = false;
  for (const std::size_t lane : busy_) {
    const Share* share = running_[lane].share;
    if (!is_traffic(lane) || share == nullptr || share->alone <= 0) continue;
    has_traffic_ = true;
    held += share->holds;
    for (std::size_t i = 0; i < share->n_traffic; ++i)
      load_[share->traffic[i].resource] += share->traffic[i].busy / share->alone;
  }
  leaves_ = 1.0 - std::min(held, 0.95);
}

// How fast an op runs beside the others, 1 at full speed.
double SectionRun::slowed(const Share* share) const {
  if (!has_traffic_ || share == nullptr || share->alone <= 0) return 1.0;
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
    const double now = slowed(running.share);
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
  enqueue(lane, pass_.lanes.next[op]);
  traffic_changed_ |= is_traffic(lane);
  if (host_blocks_ && op + 1 == issued_) {
    host_blocks_ = false;
    host_time_ = now_;
  }
}

Duration SectionRun::run() {
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

Duration run_section(const SectionPass& pass, std::span<Event> events, std::int32_t repeat,
                     Instant start) {
  XT_CHECK(events.size() == at(pass.section.end) - at(pass.section.begin));
  return SectionRun(pass, events, repeat, start).run();
}

}  // namespace xt
