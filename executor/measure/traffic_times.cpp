#include "executor/measure/traffic_times.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "executor/runtime/collectives.h"

namespace xt {
namespace {

constexpr std::int64_t float_bytes = 4;
constexpr std::int64_t row_elements = 64;
constexpr double long_message_s = 0.02;  // a longer one only repeats what this one says

// One collective over one group, with all its sizes.
struct Collective {
  Messages& messages;
  TrafficTimes times;
};

std::vector<double> seconds_of(Session& session, Collective& of, std::int64_t bytes, int calls) {
  Bench& bench = session.bench();
  bench.run(Lane::all_gather, [&] { of.messages.refresh(); });
  session.barrier();
  return bench.seconds(Lane::all_gather, std::vector<Bench::Call>(calls, [&] {
                         of.messages.send(of.times.kernel, bytes);
                       }));
}

// Leaves out what is larger than a message that takes long, so that there is time for many repeats.
void leave_out_longest(Session& session, Collective& of) {
  std::vector<MessageTimes>& points = of.times.points;
  for (auto point = points.begin(); point != points.end(); ++point) {
    const double taken_s = seconds_of(session, of, point->bytes, 1).front();
    if (session.agreed(taken_s) < long_message_s) continue;
    points.erase(point + 1, points.end());
    return;
  }
}

void visit(Session& session, Collective& of, MessageTimes& message, bool is_recorded) {
  constexpr int repeats = 2;
  // The first brings the ranks into step.
  const std::vector<double> seconds = seconds_of(session, of, message.bytes, 1 + repeats);
  if (is_recorded)
    message.times.values.insert(message.times.values.end(), seconds.begin() + 1, seconds.end());
}

TrafficTimes empty_times(const Messages& messages, Kernel kernel, std::int64_t ranks,
                         const std::vector<std::int64_t>& sizes) {
  TrafficTimes times{kernel, ranks, {messages.whole(kernel, 0), {}}, {}};
  for (const std::int64_t bytes : sizes)
    if (times.points.empty() || messages.whole(kernel, bytes) > times.points.back().bytes)
      times.points.push_back({messages.whole(kernel, bytes), {}});
  return times;
}

std::int64_t largest_message(Coverage coverage) {
  if (coverage == Coverage::large) return std::int64_t{512} << 20;
  return std::int64_t{coverage == Coverage::quick ? 16 : 64} << 20;
}

}  // namespace

std::vector<std::int64_t> message_sizes(Coverage coverage) {
  std::vector<std::int64_t> sizes;
  const std::int64_t step = coverage == Coverage::quick ? 8 : 4;
  const std::int64_t largest = largest_message(coverage);
  for (std::int64_t bytes = largest; bytes >= std::int64_t{4} << 10; bytes /= step)
    sizes.insert(sizes.begin(), bytes);
  return sizes;
}

Messages::Messages(Communicator& group, std::int64_t largest_bytes, c10::Device place)
    : group_(group) {
  const std::int64_t n = whole(Kernel::all_to_all, largest_bytes) / float_bytes;
  large_ = at::randn({n}).to(place);
  scratch_ = at::randn({n}).to(place);
  shard_ = at::randn({n / group.size()}).to(place);
  counts_ = at::empty({group.size()}, at::kLong);
}

std::int64_t Messages::whole(Kernel kernel, std::int64_t bytes) const {
  const std::int64_t unit =
      group_.size() * float_bytes * (kernel == Kernel::all_to_all ? row_elements : 1);
  return std::max(unit, bytes / unit * unit);
}

void Messages::refresh() { large_.normal_(); }

void Messages::send(Kernel kernel, std::int64_t bytes) {
  const std::int64_t n = whole(kernel, bytes) / float_bytes;
  const at::Tensor full = large_.narrow(0, 0, n), other = scratch_.narrow(0, 0, n),
                   shard = shard_.narrow(0, 0, n / group_.size());
  std::vector<at::Tensor> inputs, outputs;
  if (kernel == Kernel::all_gather) {
    inputs = {shard};
    outputs = {full};
  } else if (kernel == Kernel::reduce_scatter) {
    inputs = {full};
    outputs = {shard, other};
  } else if (kernel == Kernel::all_reduce) {
    outputs = {full};
  } else {
    const std::int64_t rows = n / row_elements;
    counts_.fill_(rows / group_.size());
    inputs = {full.view({rows, row_elements, 1}), counts_, counts_};
    outputs = {other.view({rows, row_elements, 1})};
  }
  run_collective(group_, kernel, inputs, outputs);
}

std::vector<TrafficTimes> time_collectives(Session& session, Coverage coverage,
                                           const RoundPlan& plan) {
  const std::vector<std::int64_t> sizes = message_sizes(coverage);
  std::vector<std::unique_ptr<Communicator>> groups;
  std::vector<std::unique_ptr<Messages>> messages;
  std::vector<Collective> collectives;
  for (int size = 2; size <= session.n_ranks(); ++size) {
    if (session.n_ranks() % size != 0) continue;
    groups.push_back(session.group(fmt::format("measure_{}", size), size));
    messages.push_back(
        std::make_unique<Messages>(*groups.back(), sizes.back(), session.bench().place()));
    for (const Kernel kernel : timed_collectives)
      collectives.push_back({*messages.back(), empty_times(*messages.back(), kernel, size, sizes)});
  }
  if (collectives.empty()) return {};
  for (Collective& of : collectives) leave_out_longest(session, of);
  Rounds rounds(session, plan);
  while (rounds.next()) {
    for (Collective& of : collectives) {
      visit(session, of, of.times.smallest, !rounds.is_warm_up());
      for (MessageTimes& message : of.times.points)
        visit(session, of, message, !rounds.is_warm_up());
      rounds.show();
    }
  }
  std::vector<TrafficTimes> times;
  for (Collective& of : collectives) {
    session.gather({&of.times.smallest.times, 1});
    for (MessageTimes& message : of.times.points) session.gather({&message.times, 1});
    times.push_back(std::move(of.times));
  }
  return times;
}

}  // namespace xt
