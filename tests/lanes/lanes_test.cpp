// Lanes with kernels of our own: what a task writes without any lock, a task that waits for it
// reads. The values say that order holds; a sanitizer of threads, that nothing else was touched.

#include "executor/runtime/lanes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace xt {
namespace {

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

WallTime now() { return std::chrono::steady_clock::now(); }

/// An op of a random step: it adds the values of those it depends on, and one.
struct TestOp {
  Lane lane = Lane::compute;
  std::vector<std::size_t> after;
};

std::vector<TestOp> random_step(std::mt19937& random, std::size_t n_ops) {
  std::vector<TestOp> ops(n_ops);
  for (std::size_t i = 0; i < n_ops; ++i) {
    ops[i].lane = static_cast<Lane>(random() % n_lanes);
    for (std::size_t n = random() % 4; i > 0 && n > 0; --n) ops[i].after.push_back(random() % i);
  }
  return ops;
}

/// What every op gives where ops run one after the other.
std::vector<std::int64_t> alone(const std::vector<TestOp>& ops) {
  std::vector<std::int64_t> values(ops.size(), 1);
  for (std::size_t i = 0; i < ops.size(); ++i)
    for (const std::size_t before : ops[i].after)
      values[i] = (values[i] + values[before]) % 1'000'003;
  return values;
}

/// The same on lanes: values lie side by side, and are no atomics.
class Step {
 public:
  explicit Step(const std::vector<TestOp>& ops)
      : ops_(ops), values_(ops.size()), spans_(ops.size()) {}

  std::vector<std::int64_t> run(Lanes& lanes) {
    lanes.restart();
    for (std::size_t i = 0; i < ops_.size(); ++i) issue(lanes, i);
    lanes.wait_all();
    return values_;
  }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  static Ticket ticket(std::size_t op) { return static_cast<Ticket>(op + 1); }

  Tickets needed(const TestOp& op) const {
    Tickets tickets{};
    for (const std::size_t before : op.after) {
      Ticket& of_lane = tickets[index(ops_[before].lane)];
      of_lane = std::max(of_lane, ticket(before));
    }
    return tickets;
  }
  WallTime perform(std::size_t i) {
    std::int64_t sum = 1;
    for (const std::size_t before : ops_[i].after) sum = (sum + values_[before]) % 1'000'003;
    values_[i] = sum;
    return now();
  }
  void issue(Lanes& lanes, std::size_t i) {
    const TestOp& op = ops_[i];
    if (!is_inline(op.lane))
      return lanes.submit(op.lane,
                          {ticket(i), needed(op), [this, i] { return perform(i); }, &spans_[i]});
    lanes.wait(needed(op));
    const WallTime start = now();
    spans_[i] = {start, perform(i)};
    lanes.end_inline(op.lane, ticket(i));
  }

  const std::vector<TestOp>& ops_;
  std::vector<std::int64_t> values_;
  std::vector<Span> spans_;
};

TEST(Lanes, GiveWhatOneThreadGivesOverManySteps) {
  std::mt19937 random(20261130);
  Lanes lanes;
  for (int round = 0; round < 30; ++round) {
    const std::vector<TestOp> ops = random_step(random, 1 + random() % 400);
    Step step(ops);
    EXPECT_EQ(step.run(lanes), alone(ops)) << round;
    for (const Span& span : step.spans()) EXPECT_LE(span.start, span.end);
  }
}

TEST(Lanes, LetEachThreadBeginBeforeItsFirstTask) {
  thread_local bool has_begun = false;
  bool had_begun = false;
  Span span;
  Lanes lanes([] { has_begun = true; });
  const auto task = [&] {
    had_begun = has_begun;
    return now();
  };
  lanes.submit(Lane::expert, {1, {}, task, &span});
  lanes.wait_all();
  EXPECT_TRUE(had_begun);
}

TEST(Lanes, ReleaseWhatATaskHoldsBeforeAnybodyHearsOfItsEnd) {
  Lanes lanes;
  for (Ticket ticket = 1; ticket <= 200; ++ticket) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> seen = held;
    Span span;
    lanes.submit(Lane::swap_out, {ticket, {}, [held = std::move(held)] { return now(); }, &span});
    Tickets own{};
    own[index(Lane::swap_out)] = ticket;
    lanes.wait(own);
    EXPECT_TRUE(seen.expired());
  }
}

TEST(Lanes, AFailureReachesTheIssuerAndStopsWhatWaits) {
  for (int round = 0; round < 20; ++round) {
    // Behind a failure lanes may still be at work: what they touch outlives them.
    static std::array<Span, 3> spans;
    static std::atomic<bool> has_run;
    has_run = false;
    Lanes lanes;
    const auto fail = []() -> WallTime { throw std::runtime_error("a peer was lost"); };
    const auto note = [] {
      has_run = true;
      return now();
    };
    Tickets behind{};
    behind[index(Lane::all_gather)] = 1;
    lanes.submit(Lane::all_gather, {1, {}, fail, &spans[0]});
    lanes.submit(Lane::reduce_scatter, {2, behind, note, &spans[1]});
    EXPECT_THROW(lanes.wait_all(), std::runtime_error);
    EXPECT_THROW(lanes.wait(behind), std::runtime_error) << "it stays failed";
    EXPECT_FALSE(has_run);
  }
}

TEST(LaneProgress, OfALaneThatWillEndNothingMoreIsNotTakenBackByWhatEndedMeanwhile) {
  LaneProgress lane;
  lane.reach(1);
  EXPECT_EQ(lane.reached(), 1U);
  lane.give_up();
  lane.reach(2);
  lane.wait_for(3);  // returns, or the test never ends
  lane.restart();
  lane.reach(1);
  EXPECT_EQ(lane.reached(), 1U);
}

}  // namespace
}  // namespace xt
