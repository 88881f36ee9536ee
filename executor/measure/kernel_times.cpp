#include "executor/measure/kernel_times.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "costmodel/cost/demand.h"
#include "executor/kernels/kernel_table.h"

namespace xt {
namespace {

// One size of one kernel.
struct Visit {
  Work work;
  Operands operands;
  Samples* samples = nullptr;
};

// How often a size is called in one visit. What ran before, such as the barrier, still disturbs the
// first call, which only a long one does not feel.
struct Calls {
  int unrecorded = 0;
  int recorded = 1;
};

Calls calls_of(const Work& work) {
  constexpr double long_flops = 2e8;
  constexpr std::int64_t long_bytes = std::int64_t{32} << 20, short_bytes = std::int64_t{4} << 20;
  const std::int64_t bytes = memory_traffic(work, {}).value;
  if (hardware_flops(work, {}).value >= long_flops || bytes >= long_bytes) return {0, 1};
  return {1, bytes >= short_bytes ? 2 : 3};
}

class KernelTimer {
 public:
  KernelTimer(Session& session, Ring& ring) : session_(session), ring_(ring) {}

  void visit(Visit& visit, bool is_recorded) {
    Bench& bench = session_.bench();
    bench.run(Lane::compute, [&] { ring_.refresh(visit.operands); });
    session_.barrier();
    const Calls n = calls_of(visit.work);
    std::vector<Bench::Call> calls;
    for (int i = 0; i < n.unrecorded + n.recorded; ++i)
      calls.emplace_back([&, places = ring_.next(visit.operands)] { call(visit, places); });
    const std::vector<double> seconds = bench.seconds(Lane::compute, calls);
    if (is_recorded)
      visit.samples->values.insert(visit.samples->values.end(), seconds.begin() + n.unrecorded,
                                   seconds.end());
  }

 private:
  void call(const Visit& visit, const Ring::Call& places) const {
    const auto inputs = tensors_at(visit.operands.inputs, places.inputs, ring_.place());
    const auto outputs = tensors_at(visit.operands.outputs, places.outputs, ring_.place());
    session_.bench().kernels()[static_cast<std::size_t>(visit.work.kernel)](
        {visit.work, bindings_, inputs, outputs, constants_, step_});
  }

  Session& session_;
  Ring& ring_;
  Bindings bindings_;
  ModelConstants constants_;
  StepConstants step_{.learning_rate = 1e-3};
};

std::vector<Visit> visits_of(std::vector<KernelTimes>& times, c10::Device place) {
  constexpr std::uint64_t seed = 1;  // the same on all ranks, so that they do the same work
  std::mt19937_64 random(seed);
  std::vector<Visit> visits;
  for (KernelTimes& kernel : times) {
    kernel.points.resize(kernel.cases.points.size());
    const auto visit = [&](const Work& work, Samples& samples) {
      visits.push_back({work, on_device(operands_of(work, random), place), &samples});
    };
    visit(kernel.cases.smallest, kernel.smallest);
    for (std::size_t i = 0; i < kernel.points.size(); ++i)
      visit(kernel.cases.points[i], kernel.points[i]);
  }
  std::ranges::shuffle(visits, random);
  return visits;
}

}  // namespace

std::vector<KernelTimes> time_kernels(Session& session, std::vector<KernelCases> cases, Ring& ring,
                                      const RoundPlan& plan) {
  std::vector<KernelTimes> times;
  for (KernelCases& of : cases) times.push_back({std::move(of), {}, {}});
  std::vector<Visit> visits = visits_of(times, ring.place());
  KernelTimer timer(session, ring);
  Rounds rounds(session, plan);
  while (rounds.next()) {
    for (Visit& visit : visits) {
      timer.visit(visit, !rounds.is_warm_up());
      rounds.show();
    }
  }
  for (KernelTimes& kernel : times) {
    session.gather({&kernel.smallest, 1});
    session.gather(kernel.points);
  }
  return times;
}

std::vector<MessageTimes> time_memory_copies(Session& session, std::int64_t largest_bytes,
                                             const RoundPlan& plan) {
  Bench& bench = session.bench();
  const std::int64_t n = largest_bytes / 8;
  const at::Tensor from = at::randn({n}).to(bench.place()), to = at::randn({n}).to(bench.place());
  std::vector<MessageTimes> copies;
  for (std::int64_t bytes = std::int64_t{16} << 10; bytes <= largest_bytes; bytes *= 8)
    copies.push_back({bytes, {}});
  if (copies.back().bytes < largest_bytes) copies.push_back({largest_bytes, {}});
  std::int64_t at = 0;
  Rounds rounds(session, plan);
  while (rounds.next()) {
    for (MessageTimes& copy : copies) {
      const std::int64_t elements = copy.bytes / 8;
      if (at + elements > n) at = 0;
      session.barrier();
      const Bench::Call call = [&] {
        to.narrow(0, at, elements).copy_(from.narrow(0, at, elements));
      };
      const double seconds = bench.seconds(Lane::compute, {&call, 1}).front();
      if (!rounds.is_warm_up()) copy.times.values.push_back(seconds);
      at += elements;
    }
  }
  for (MessageTimes& copy : copies) session.gather({&copy.times, 1});
  return copies;
}

std::int64_t cache_bytes_per_rank(std::int64_t n_ranks) {
  const std::int64_t own = std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE));
  const std::int64_t shared = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::max(4 * own, shared / n_ranks);
}

}  // namespace xt
