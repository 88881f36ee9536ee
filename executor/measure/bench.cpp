#include "executor/measure/bench.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

double seconds_of(const Span& span) {
  return std::chrono::duration<double>(span.end - span.start).count();
}

}  // namespace

BenchDevice bench_device(DeviceChoice choice, int local_rank, int local_ranks) {
  constexpr std::int64_t plug_bytes = std::int64_t{1} << 30;  // half a millisecond and more
  BenchDevice bench;
  bench.make = [=] { return make_device(choice, local_rank, local_ranks); };
  bench.kernels = kernels_for(choice);
  if (choice != DeviceChoice::cuda) return bench;
  bench.is_asynchronous = true;
  bench.plug_bytes = plug_bytes;
  bench.product = {Kernel::matmul, DType::bf16, Group::none, {4096, 4096, 4096}};
  return bench;
}

Bench::Bench(BenchDevice of) : of_(std::move(of)), device_(of_.make()) {
  if (of_.plug_bytes == 0) return;
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(place());
  plug_from_ = at::zeros({of_.plug_bytes}, bytes);
  plug_to_ = at::zeros({of_.plug_bytes}, bytes);
}

std::vector<double> Bench::seconds(Lane lane, std::span<const Call> calls) {
  std::vector<double> seconds;
  if (!is_asynchronous()) {
    for (const Call& call : calls) {
      const steady_clock::time_point start = steady_clock::now();
      call();
      seconds.push_back(seconds_of({start, steady_clock::now()}));
    }
    return seconds;
  }
  std::vector<LaneCall> on_lane;
  for (const Call& call : calls) on_lane.push_back({lane, call});
  for (const Span& span : spans(on_lane)) seconds.push_back(seconds_of(span));
  return seconds;
}

// Every lane first waits for one plug, so that all of them begin when it has ended.
std::vector<Span> Bench::spans(std::span<const LaneCall> calls) {
  XT_CHECK(is_asynchronous());
  std::vector<Span> spans(calls.size() + 1);
  constexpr Ticket plugged = 1;
  device_->begin_step();
  const auto plug = [this] {
    plug_to_.copy_(plug_from_);
    return steady_clock::now();
  };
  device_->issue(Lane::compute, {plugged, {}, plug, &spans[0]});
  Tickets after{};
  after[static_cast<std::size_t>(Lane::compute)] = plugged;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto run = [call = calls[i].call] {
      call();
      return steady_clock::now();
    };
    device_->issue(calls[i].lane,
                   {static_cast<Ticket>(plugged + 1 + i), after, run, &spans[i + 1]});
  }
  device_->end_step();
  spans.erase(spans.begin());
  return spans;
}

}  // namespace xt
