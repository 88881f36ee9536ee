#include "executor/measure/overlap.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>

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

// A product as layers have them, again and again.
class Compute {
 public:
  Compute() : ring_(64 << 20, 16 << 20, 1), random_(1), operands_(operands_of(work_, random_)) {}

  void run_once() {
    const Ring::Call places = ring_.next(operands_);
    const auto inputs = tensors_at(operands_.inputs, places.inputs);
    const auto outputs = tensors_at(operands_.outputs, places.outputs);
    table_[static_cast<std::size_t>(work_.kernel)](
        {work_, bindings_, inputs, outputs, constants_, step_});
  }

 private:
  Work work_{Kernel::matmul, DType::fp32, Group::none, {512, 256, 256}};
  Ring ring_;
  std::mt19937_64 random_;
  Operands operands_;
  KernelTable table_ = cpu_kernels();
  Bindings bindings_;
  ModelConstants constants_;
  StepConstants step_;
};

// One kind of traffic and how to make one message of it.
struct Kind {
  HeldShare held;
  std::function<void()> send;
};

class OverlapProbe {
 public:
  explicit OverlapProbe(Session& session) : session_(session) {}

  // One repeat of alone, alone, together.
  double share(const std::function<void()>& send) {
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

 private:
  static constexpr int products_alone = 24;

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
struct Copier {
  at::Tensor from = at::randn({8 * message_bytes / 4});
  at::Tensor to = at::randn({8 * message_bytes / 4});
  std::int64_t next = 0;

  void operator()() {
    auto* target = static_cast<std::byte*>(to.mutable_data_ptr()) + next;
    std::memcpy(target, static_cast<const std::byte*>(from.const_data_ptr()) + next, message_bytes);
    next = (next + message_bytes) % (8 * message_bytes);
  }
};

}  // namespace

std::vector<HeldShare> held_shares(Session& session, const RoundPlan& plan) {
  Messages messages(session.world(), message_bytes);
  Copier copier;
  std::vector<Kind> kinds;
  if (session.n_ranks() > 1)
    for (const Kernel kernel : timed_collectives)
      kinds.push_back(
          {{kernel, {}}, [&messages, kernel] { messages.send(kernel, message_bytes); }});
  for (const Kernel kernel : {Kernel::copy_to_host, Kernel::copy_to_device})
    kinds.push_back({{kernel, {}}, std::ref(copier)});
  OverlapProbe probe(session);
  Rounds rounds(session, plan);
  while (rounds.next()) {
    for (Kind& kind : kinds) {
      messages.refresh();
      const double share = probe.share(kind.send);
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
