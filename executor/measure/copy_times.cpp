// Copies between device and host memory, made by the interpreter of schedules.

#include <ATen/ATen.h>

#include <utility>

#include "costmodel/ir/schedule_builder.h"
#include "executor/measure/traffic_times.h"
#include "executor/runtime/execute.h"

namespace xt {
namespace {

// Copies of all sizes to the host and then of all sizes back, each waited for before the next: what
// comes back has left the caches meanwhile, as it has in a step.
Schedule copies_schedule(const std::vector<std::int64_t>& sizes) {
  ScheduleBuilder builder("measure", 1);
  const Origin origin{Phase::prepare, builder.part("copies")};
  std::vector<std::array<BufferId, 1>> device, host;
  for (const std::int64_t bytes : sizes) {
    TensorSpec spec{{bytes / width(DType::fp32), 1, 1}};
    device.push_back({builder.resident(spec)});
    spec.space = Space::host;
    host.push_back({builder.resident(spec)});
  }
  const auto copy = [&](Kernel kernel, Lane lane, std::size_t i, const auto& from, const auto& to) {
    const Work work{kernel, DType::fp32, Group::none, {sizes[i] / width(DType::fp32)}};
    const std::array done = {builder.add({work, lane, origin, from[i], to[i], {}, {}})};
    builder.add(
        {{Kernel::wait, DType::fp32, Group::none, {}}, Lane::host, origin, {}, {}, {}, done});
  };
  for (std::size_t i = 0; i < sizes.size(); ++i)
    copy(Kernel::copy_to_host, Lane::swap_out, i, device, host);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    copy(Kernel::copy_to_device, Lane::swap_in, i, host, device);
  builder.end_section(1, origin);
  return std::move(builder).finish();
}

}  // namespace

std::pair<TrafficTimes, TrafficTimes> time_copies(Session& session, Coverage coverage,
                                                  const RoundPlan& plan) {
  std::vector<std::int64_t> sizes = message_sizes(coverage);
  sizes.insert(sizes.begin(), 64);
  const Schedule schedule = copies_schedule(sizes);
  StepState state(schedule, session.bench().kernels(), {}, session.bench().another());
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i)
    state.memory.tensor(static_cast<BufferId>(i)).normal_();
  std::pair<TrafficTimes, TrafficTimes> times;
  times.first = {Kernel::copy_to_host, 1, {}, {}};
  times.second = {Kernel::copy_to_device, 1, {}, {}};
  std::vector<MessageTimes> up, down;
  for (const std::int64_t bytes : sizes) up.push_back({bytes, {}});
  down = up;
  Rounds rounds(session, plan);
  while (rounds.next()) {
    session.barrier();
    const Timeline timeline = execute(state, {session.rank(), {}, {}}).timeline;
    if (rounds.is_warm_up()) continue;
    std::size_t n_up = 0, n_down = 0;
    for (const Event& event : timeline.events) {
      const double seconds = to_seconds(event.end - event.start).value;
      const Kernel kernel = schedule.work(schedule.op(event.op)).kernel;
      if (kernel == Kernel::copy_to_host) up[n_up++].times.values.push_back(seconds);
      if (kernel == Kernel::copy_to_device) down[n_down++].times.values.push_back(seconds);
    }
  }
  for (MessageTimes& message : up) session.gather({&message.times, 1});
  for (MessageTimes& message : down) session.gather({&message.times, 1});
  times.first.smallest = up.front();
  times.second.smallest = down.front();
  times.first.points.assign(up.begin() + 1, up.end());
  times.second.points.assign(down.begin() + 1, down.end());
  return times;
}

}  // namespace xt
