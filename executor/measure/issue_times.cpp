#include "executor/measure/issue_times.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "costmodel/ir/schedule_builder.h"
#include "executor/runtime/execute.h"

namespace xt {
namespace {

constexpr int n_ops = 256;

// Which small op is issued after every small compute op.
enum class Between : std::uint8_t { nothing, copy, collective, copy_and_wait };

struct Small {
  ScheduleBuilder& builder;
  Origin origin;
  std::array<BufferId, 1> device;
  std::array<BufferId, 1> host;

  OpId copy() {
    return builder.add({{Kernel::copy_to_host, DType::fp32, Group::none, {16}},
                        Lane::swap_out,
                        origin,
                        device,
                        host,
                        {},
                        {}});
  }
  void collective() {
    builder.add({{Kernel::all_reduce, DType::fp32, Group::world, {16}},
                 Lane::reduce_scatter,
                 origin,
                 {},
                 device,
                 {},
                 {}});
  }
  void wait(OpId op) {
    builder.add({{Kernel::wait, DType::fp32, Group::none, {}},
                 Lane::host,
                 origin,
                 {},
                 {},
                 {},
                 std::array{op}});
  }
  void compute() {
    const std::array made = {builder.transient({{16, 1, 1}})};
    builder.add({{Kernel::fill_zero, DType::fp32, Group::none, {16}},
                 Lane::compute,
                 origin,
                 {},
                 made,
                 {},
                 {}});
  }
};

Schedule small_ops(Between between, int n_ranks) {
  ScheduleBuilder builder("measure", n_ranks);
  builder.draft().groups[static_cast<std::size_t>(Group::world)] = {n_ranks, 1};
  const Origin origin{Phase::prepare, builder.part("issue")};
  TensorSpec spec{{16, 1, 1}};
  const BufferId device = builder.resident(spec);
  spec.space = Space::host;
  Small small{builder, origin, {device}, {builder.resident(spec)}};
  for (int i = 0; i < n_ops; ++i) {
    small.compute();
    if (between == Between::collective) small.collective();
    if (between == Between::copy) small.copy();
    if (between == Between::copy_and_wait) small.wait(small.copy());
  }
  builder.end_section(1, origin);
  return std::move(builder).finish();
}

// A schedule with what it needs to run.
class Probe {
 public:
  Probe(Session& session, Between between, Communicators communicators)
      : session_(session),
        schedule_(small_ops(between, session.n_ranks())),
        state_(schedule_, session.bench().kernels(), std::move(communicators),
               session.bench().another()) {}

  Timeline run() {
    session_.barrier();
    return execute(state_, {session_.rank(), {}, {}}).timeline;
  }

  // What one compute op and what is issued after it take of the host.
  double host_time() { return session_.bench().is_asynchronous() ? issuing_time() : gap(); }

  // The median time from the end of a copy to the end of the op that waits for it.
  double wake_up() {
    const Timeline timeline = run();
    std::vector<double> times;
    for (std::size_t i = 1; i < timeline.events.size(); ++i) {
      const Event& event = timeline.events[i];
      const Op& before = schedule_.op(timeline.events[i - 1].op);
      if (schedule_.op(event.op).lane == Lane::host && before.lane == Lane::swap_out)
        times.push_back(to_seconds(event.end - timeline.events[i - 1].end).value);
    }
    return median_of(std::move(times));
  }

 private:
  // Small ops take the device less time than the thread that issues them.
  double issuing_time() { return to_seconds(run().end - Instant{}).value / n_ops; }

  // The median time from the end of a compute op to the start of the next.
  double gap() {
    const Timeline timeline = run();
    std::vector<double> gaps;
    std::optional<Instant> ended;
    for (const Event& event : timeline.events) {
      if (schedule_.op(event.op).lane != Lane::compute) continue;
      if (ended) gaps.push_back(to_seconds(event.start - *ended).value);
      ended = event.end;
    }
    return median_of(std::move(gaps));
  }

  Session& session_;
  Schedule schedule_;
  StepState state_;
};

Communicators with_world(Session& session) {
  Communicators communicators;
  communicators[static_cast<std::size_t>(Lane::reduce_scatter)]
               [static_cast<std::size_t>(Group::world)] =
                   session.group("measure_issue", session.n_ranks());
  return communicators;
}

}  // namespace

IssueTimes time_issue(Session& session, const RoundPlan& plan) {
  Probe kernels(session, Between::nothing, {});
  Probe copies(session, Between::copy, {});
  Probe collectives(session, Between::collective, with_world(session));
  Probe waits(session, Between::copy_and_wait, {});
  IssueTimes times;
  Rounds rounds(session, plan);
  while (rounds.next()) {
    const double kernel = kernels.host_time(), copy = copies.host_time(),
                 collective = collectives.host_time(), wake_up = waits.wake_up();
    if (rounds.is_warm_up()) continue;
    times.kernel.values.push_back(kernel);
    times.copy.values.push_back(std::max(0.0, copy - kernel));
    times.collective.values.push_back(std::max(0.0, collective - kernel));
    times.synchronize.values.push_back(std::max(0.0, wake_up));
  }
  for (Samples* samples : {&times.kernel, &times.copy, &times.collective, &times.synchronize})
    session.gather({samples, 1});
  return times;
}

double reserved_over_allocated(Device& device) {
  constexpr int n_blocks = 256;
  constexpr double smallest_log2 = 10, largest_log2 = 22;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> size_log2(smallest_log2, largest_log2);
  const MemoryUsage before = device.usage();
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < n_blocks; ++i)
    blocks.push_back(
        device.allocate({}, Bytes(static_cast<std::int64_t>(std::exp2(size_log2(random))))));
  const MemoryUsage after = device.usage();
  return (after.reserved - before.reserved) /
         (after.of(Space::device).current - before.of(Space::device).current);
}

}  // namespace xt
