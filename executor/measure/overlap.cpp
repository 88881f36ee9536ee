#include "executor/measure/overlap.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <vector>

#include "costmodel/cost/demand.h"
#include "executor/kernels/kernel_table.h"
#include "executor/measure/operands.h"
#include "executor/measure/traffic_times.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t message_bytes = std::int64_t{4} << 20;
constexpr double traffic_s = 0.06;  // long beside one product and beside starting a thread

double seconds_of(const std::function<void()>& run) {
  const steady_clock::time_point start = steady_clock::now();
  run();
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// Some products walk through it before the first finds its operands again.
std::int64_t ring_bytes(const Work& product) {
  constexpr std::int64_t least = std::int64_t{16} << 20;
  return std::max(least, 2 * memory_traffic(product, {}).value);
}

// A product, again and again.
class Compute {
 public:
  explicit Compute(const Bench& bench)
      : work_(bench.product()),
        ring_(2 * ring_bytes(work_), ring_bytes(work_), 1, bench.place()),
        random_(1),
        operands_(operands_of(work_, random_)),
        table_(bench.kernels()) {}

  void run_once() {
    const Ring::Call places = ring_.next(operands_);
    const auto inputs = tensors_at(operands_.inputs, places.inputs, ring_.place());
    const auto outputs = tensors_at(operands_.outputs, places.outputs, ring_.place());
    table_[static_cast<std::size_t>(work_.kernel)](
        {work_, bindings_, inputs, outputs, constants_, step_});
  }

 private:
  Work work_;
  Ring ring_;
  std::mt19937_64 random_;
  Operands operands_;
  const KernelTable& table_;
  Bindings bindings_;
  ModelConstants constants_;
  StepConstants step_;
};

// One kind of traffic, where it travels and how to make one message of it.
struct Kind {
  HeldShare held;
  Lane lane = Lane::all_gather;
  std::function<void()> send;
};

class OverlapProbe {
 public:
  explicit OverlapProbe(Session& session) : session_(session), compute_(session.bench()) {}

  // One repeat of alone, alone, together.
  double share(const Kind& kind) {
    return session_.bench().is_asynchronous() ? share_on_lanes(kind) : share_on_threads(kind.send);
  }

 private:
  static constexpr int products_alone = 24;

  // Products on the lane of compute beside messages that last longer.
  double share_on_lanes(const Kind& kind) {
    Bench& bench = session_.bench();
    const std::vector<Bench::Call> products(products_alone, [this] { compute_.run_once(); });
    const std::vector<double> alone = bench.seconds(Lane::compute, products);
    const double compute = std::accumulate(alone.begin(), alone.end(), 0.0);
    const double message_s = bench.seconds(kind.lane, {&kind.send, 1}).front();
    constexpr double longer = 3;
    const double wanted = session_.agreed(longer * compute / message_s);
    const int n = std::clamp(static_cast<int>(wanted), 4, 4096);
    std::vector<Bench::LaneCall> calls;
    for (int i = 0; i < n; ++i) calls.push_back({kind.lane, kind.send});
    for (const Bench::Call& product : products) calls.push_back({Lane::compute, product});
    session_.barrier();
    const std::vector<Span> spans = bench.spans(calls);
    const Span& first = spans[static_cast<std::size_t>(n)];
    const std::chrono::duration<double> together = spans.back().end - first.start;
    return (together.count() - compute) / together.count();
  }

  double share_on_threads(const std::function<void()>& send) {
    const double message_s = seconds_alone([&] { send(); }, 4);
    const int n = std::clamp(static_cast<int>(session_.agreed(traffic_s / message_s)), 4, 4096);
    const double traffic = n * seconds_alone([&] { send(); }, n);
    const double product = seconds_alone([&] { compute_.run_once(); }, products_alone);
    session_.barrier();
    std::atomic<bool> has_ended = false;
    int products = 0;
    const double together = seconds_of([&] {
      auto traffic_thread = std::async(std::launch::async, [&] {
        const Ended at_the_end{has_ended};
        for (int i = 0; i < n; ++i) send();
      });
      for (; !has_ended; ++products) compute_.run_once();
      traffic_thread.get();
    });
    return (together - products * product) / traffic;
  }

  // Tells the computing thread, also when a peer was lost.
  struct Ended {
    std::atomic<bool>& has_ended;
    ~Ended() { has_ended = true; }
  };

  // Seconds of one of `n` calls, made by a thread that was just started, as traffic is.
  double seconds_alone(const std::function<void()>& call, int n) {
    session_.barrier();
    return seconds_of([&] {
             std::async(std::launch::async, [&] {
               for (int i = 0; i < n; ++i) call();
             }).get();
           }) /
           n;
  }

  Session& session_;
  Compute compute_;
};

// A copy of one large block after the other, so that none is found in a cache.
class Copier {
 public:
  Copier(Device& device, Space from, Space to)
      : device_(device), from_(blocks(from)), to_(blocks(to)) {}

  void operator()() {
    device_.copy(to_.narrow(0, next_, block), from_.narrow(0, next_, block));
    next_ = (next_ + block) % (n_blocks * block);
  }

 private:
  static constexpr std::int64_t block = message_bytes / 4, n_blocks = 8;

  at::Tensor blocks(Space space) {
    Buffer buffer;
    buffer.space = space;
    constexpr std::int64_t bytes = n_blocks * message_bytes;
    memory_.push_back(device_.allocate(buffer, Bytes(bytes)));
    const at::Tensor tensor =
        at::from_blob(memory_.back().get(), {n_blocks * block},
                      at::TensorOptions().dtype(at::kFloat).device(device_.place(space)));
    tensor.normal_();
    return tensor;
  }

  Device& device_;
  std::vector<c10::DataPtr> memory_;
  at::Tensor from_, to_;
  std::int64_t next_ = 0;
};

}  // namespace

std::vector<HeldShare> held_shares(Session& session, const RoundPlan& plan) {
  Bench& bench = session.bench();
  const auto group = session.group("measure_overlap", session.n_ranks());
  Messages messages(*group, message_bytes, bench.place());
  Copier to_host(bench.device(), Space::device, Space::host);
  Copier to_device(bench.device(), Space::host, Space::device);
  std::vector<Kind> kinds;
  if (session.n_ranks() > 1)
    for (const Kernel kernel : timed_collectives)
      kinds.push_back({{kernel, {}}, Lane::all_gather, [&messages, kernel] {
                         messages.send(kernel, message_bytes);
                       }});
  kinds.push_back({{Kernel::copy_to_host, {}}, Lane::swap_out, std::ref(to_host)});
  kinds.push_back({{Kernel::copy_to_device, {}}, Lane::swap_in, std::ref(to_device)});
  OverlapProbe probe(session);
  Rounds rounds(session, plan);
  while (rounds.next()) {
    for (Kind& kind : kinds) {
      bench.run(Lane::all_gather, [&] { messages.refresh(); });
      const double share = probe.share(kind);
      if (!rounds.is_warm_up()) kind.held.shares.values.push_back(share);
      rounds.show();
    }
  }
  std::vector<HeldShare> held;
  for (Kind& kind : kinds) {
    session.gather({&kind.held.shares, 1});
    held.push_back(std::move(kind.held));
  }
  return held;
}

}  // namespace xt
