#include "executor/measure/kernel_times.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "costmodel/cost/demand.h"
#include "executor/kernels/kernel_table.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

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
    ring_.refresh(visit.operands);
    session_.barrier();
    const Calls calls = calls_of(visit.work);
    for (int i = 0; i < calls.unrecorded; ++i) call(visit);
    for (int i = 0; i < calls.recorded; ++i) {
      const double seconds = call(visit);
      if (is_recorded) visit.samples->values.push_back(seconds);
    }
  }

 private:
  double call(const Visit& visit) {
    const Ring::Call places = ring_.next(visit.operands);
    const steady_clock::time_point start = steady_clock::now();
    const auto inputs = tensors_at(visit.operands.inputs, places.inputs);
    const auto outputs = tensors_at(visit.operands.outputs, places.outputs);
    table_[static_cast<std::size_t>(visit.work.kernel)](
        {visit.work, bindings_, inputs, outputs, constants_, step_});
    return seconds_since(start);
  }

  Session& session_;
  Ring& ring_;
  KernelTable table_ = cpu_kernels();
  Bindings bindings_;
  ModelConstants constants_;
  StepConstants step_{.learning_rate = 1e-3};
};

std::vector<Visit> visits_of(std::vector<KernelTimes>& times) {
  constexpr std::uint64_t seed = 1;  // the same on all ranks, so that they do the same work
  std::mt19937_64 random(seed);
  std::vector<Visit> visits;
  for (KernelTimes& kernel : times) {
    kernel.points.resize(kernel.cases.points.size());
    visits.push_back(
        {kernel.cases.smallest, operands_of(kernel.cases.smallest, random), &kernel.smallest});
    for (std::size_t i = 0; i < kernel.points.size(); ++i)
      visits.push_back(
          {kernel.cases.points[i], operands_of(kernel.cases.points[i], random), &kernel.points[i]});
  }
  std::ranges::shuffle(visits, random);
  return visits;
}

}  // namespace

std::vector<KernelTimes> time_kernels(Session& session, std::vector<KernelCases> cases, Ring& ring,
                                      const RoundPlan& plan) {
  std::vector<KernelTimes> times;
  for (KernelCases& of : cases) times.push_back({std::move(of), {}, {}});
  std::vector<Visit> visits = visits_of(times);
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
  const std::int64_t n = largest_bytes / 8;
  const at::Tensor from = at::randn({n}), to = at::randn({n});
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
      const steady_clock::time_point start = steady_clock::now();
      to.narrow(0, at, elements).copy_(from.narrow(0, at, elements));
      if (!rounds.is_warm_up()) copy.times.values.push_back(seconds_since(start));
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
