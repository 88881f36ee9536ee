#include "executor/communicators/gloo.h"

// The only file that sees Gloo. The torch wheel holds Gloo's code inside libtorch_cpu but none of
// its headers, so the headers in gloo_stub/ name what ProcessGroupGloo.hpp needs to be read. That
// is safe as long as this file makes a device, options and a ProcessGroupGloo and nothing else:
// no GlooStore, no gloo:: function, no ProcessGroupGlooDetail.hpp.

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <mutex>

#include "costmodel/diagnostics/check.h"
#include "executor/communicators/single_rank.h"
#include "executor/communicators/sum_ranks.h"

namespace xt {
namespace {

using c10d::ProcessGroupGloo;
using std::chrono::steady_clock;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// What the worker threads and the issuing thread share about one collective.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t n_outstanding = 0;
  std::exception_ptr error;
  steady_clock::time_point when;
  std::function<void()> finish;     ///< local work of the last worker to arrive
  std::vector<at::Tensor> tensors;  ///< kept alive until all have arrived

  void arrive(const std::exception_ptr& failure) {
    std::unique_lock lock(mutex);
    if (failure && !error) error = failure;
    if (n_outstanding > 1 || error || !finish) return leave();
    lock.unlock();
    std::exception_ptr own_failure;
    try {
      finish();
    } catch (const std::exception&) {
      own_failure = std::current_exception();
    }
    lock.lock();
    error = own_failure;
    leave();
  }

  /// Assumes: the mutex is held
  void leave() {
    if (--n_outstanding == 0) tensors.clear();
    if (!is_settled()) return;
    when = steady_clock::now();
    changed.notify_all();
  }

  /// Whether there is nothing to wait for. Behind a failure the rest may never arrive: who should
  /// send it may wait for this rank, which is to say that a rank is lost.
  ///
  /// Assumes: the mutex is held
  [[nodiscard]] bool is_settled() const { return n_outstanding == 0 || error != nullptr; }
};

/// The members of a group and where to ask who is missing.
struct Members {
  Rendezvous& rendezvous;
  std::string name;
  std::vector<int> ranks;

  /// Runs `action`; a failure of the network becomes PeerLost. Errors of LibTorch itself (a wrong
  /// argument) stay what they are.
  template <typename Action>
  auto guarded(const char* op, const Action& action) const {
    try {
      return action();
    } catch (const c10::Error&) {
      throw;
    } catch (const std::exception& error) {
      const std::string_view reason = error.what();
      throw PeerLost(fmt::format("{} of group {}", op, name), rendezvous.find_lost_rank(ranks),
                     std::string(reason.substr(0, reason.find('\n'))));
    }
  }
};

class GlooPending final : public Pending {
 public:
  GlooPending(const char* op, std::shared_ptr<const Members> members,
              std::shared_ptr<Completion> completion)
      : op_(op), members_(std::move(members)), completion_(std::move(completion)) {}

  void wait() override {
    std::unique_lock lock(completion_->mutex);
    completion_->changed.wait(lock, [&] { return completion_->is_settled(); });
    if (!completion_->error) return;
    const std::exception_ptr error = completion_->error;
    lock.unlock();
    members_->guarded(op_, [&] { std::rethrow_exception(error); });
  }

  [[nodiscard]] bool is_done() const override {
    const std::scoped_lock lock(completion_->mutex);
    return completion_->is_settled();
  }

  [[nodiscard]] steady_clock::time_point completed() const override {
    const std::scoped_lock lock(completion_->mutex);
    XT_CHECK(completion_->is_settled(), completion_->n_outstanding);
    return completion_->when;
  }

 private:
  const char* op_;
  std::shared_ptr<const Members> members_;
  std::shared_ptr<Completion> completion_;
};

/// The elements as bytes: what only moves needs no element type that Gloo knows.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

std::vector<std::int64_t> copied(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum;
}

class GlooGroup final : public Communicator {
 public:
  GlooGroup(Members members, int rank, c10::intrusive_ptr<ProcessGroupGloo> backend)
      : Communicator(rank, static_cast<int>(members.ranks.size())),
        members_(std::make_shared<const Members>(std::move(members))),
        backend_(std::move(backend)) {}

  PendingCollective all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    XT_CHECK(full.is_contiguous() && shard.is_contiguous());
    const std::int64_t n = shard.numel();
    const at::Tensor parts = full.view({-1});
    at::Tensor own = parts.narrow(0, rank() * n, n);
    if (own.data_ptr() != shard.data_ptr()) own.copy_(shard.view({-1}));
    return issue("all_gather", {full}, [&] {
      Works works;
      for (int root = 0; root < size(); ++root)
        works.push_back(start_broadcast(parts.narrow(0, root * n, n), root));
      return works;
    });
  }

  PendingCollective reduce_scatter(const at::Tensor& shard, const at::Tensor& full,
                                   const at::Tensor& scratch) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    XT_CHECK(scratch.numel() == full.numel(), scratch.numel(), full.numel());
    XT_CHECK(scratch.scalar_type() == full.scalar_type() && shard.is_contiguous());
    return issue(
        "reduce_scatter", {shard, full, scratch},
        [&] { return start_all_to_all(as_bytes(scratch), as_bytes(full), {}, {}); },
        [shard, scratch] { sum_ranks(shard, scratch); });
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent) override {
    XT_CHECK(received.numel() == sent.numel(), received.numel(), sent.numel());
    XT_CHECK(sent.numel() % size() == 0, sent.numel(), size());
    return issue("all_to_all", {received, sent},
                 [&] { return start_all_to_all(as_bytes(received), as_bytes(sent), {}, {}); });
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent,
                               std::span<const std::int64_t> received_rows,
                               std::span<const std::int64_t> sent_rows) override {
    XT_CHECK(std::ssize(received_rows) == size() && std::ssize(sent_rows) == size());
    XT_CHECK(received.size(0) == sum_of(received_rows), received.size(0), sum_of(received_rows));
    XT_CHECK(sent.size(0) == sum_of(sent_rows), sent.size(0), sum_of(sent_rows));
    return issue("all_to_all", {received, sent}, [&] {
      return start_all_to_all(received, sent, copied(received_rows), copied(sent_rows));
    });
  }

  PendingCollective all_reduce(const at::Tensor& x) override {
    XT_CHECK(x.is_contiguous());
    return issue("all_reduce", {x}, [&] {
      std::vector<at::Tensor> tensors{x};
      return Works{backend_->allreduce(tensors)};
    });
  }

  PendingCollective broadcast(const at::Tensor& x, int root) override {
    XT_CHECK(x.is_contiguous());
    return issue("broadcast", {x}, [&] { return Works{start_broadcast(x, root)}; });
  }

  PendingCollective barrier() override {
    const at::Tensor token = at::zeros({1}, at::kByte);
    return issue("barrier", {token}, [&] {
      std::vector<at::Tensor> tensors{token};
      return Works{backend_->allreduce(tensors)};
    });
  }

 private:
  c10::intrusive_ptr<c10d::Work> start_broadcast(const at::Tensor& x, int root) {
    std::vector<at::Tensor> tensors{as_bytes(x)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend_->broadcast(tensors, options);
  }

  /// Gloo does not look whether its output is contiguous; a mistake would corrupt memory.
  Works start_all_to_all(at::Tensor received, at::Tensor sent,
                         std::vector<std::int64_t> received_rows,
                         std::vector<std::int64_t> sent_rows) {
    XT_CHECK(received.is_contiguous() && sent.is_contiguous());
    return {backend_->alltoall_base(received, sent, received_rows, sent_rows)};
  }

  template <typename Start>
  PendingCollective issue(const char* op, std::vector<at::Tensor> tensors, const Start& start,
                          std::function<void()> finish = {}) {
    const Works works = members_->guarded(op, start);
    auto completion = std::make_shared<Completion>();
    completion->n_outstanding = works.size();
    completion->finish = std::move(finish);
    completion->tensors = std::move(tensors);
    for (const auto& work : works)
      work->getFuture()->addCallback([completion](c10::ivalue::Future& future) {
        completion->arrive(future.hasError() ? future.exception_ptr() : nullptr);
      });
    return std::make_unique<GlooPending>(op, members_, std::move(completion));
  }

  std::shared_ptr<const Members> members_;
  c10::intrusive_ptr<ProcessGroupGloo> backend_;
};

}  // namespace

GlooNetwork::GlooNetwork(Rendezvous& rendezvous, std::chrono::seconds timeout)
    : rendezvous_(rendezvous), timeout_(timeout) {
  // Gloo writes to a lost peer's socket like to a pipe; its error is wanted, not the signal's kill.
  std::signal(SIGPIPE, SIG_IGN);
  const std::optional<std::string> interface = process_variable("GLOO_SOCKET_IFNAME");
  if (is_loopback(rendezvous.place().store_host))
    device_ = ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  else if (interface)
    device_ = ProcessGroupGloo::createDeviceForInterface(*interface);
  else
    device_ = ProcessGroupGloo::createDefaultDevice();
}

std::unique_ptr<Communicator> GlooNetwork::group(std::string_view name,
                                                 std::span<const int> ranks) {
  const auto own = std::ranges::find(ranks, rendezvous_.place().rank);
  XT_CHECK(own != ranks.end(), rendezvous_.place().rank, name);
  if (ranks.size() == 1) return single_rank_communicator();
  const auto options = ProcessGroupGloo::Options::create(timeout_);
  options->devices.push_back(std::static_pointer_cast<gloo::transport::Device>(device_));
  options->threads = 2;
  Members members{rendezvous_, std::string(name), {ranks.begin(), ranks.end()}};
  const int rank = static_cast<int>(own - ranks.begin());
  const auto store = rendezvous_.store_of(fmt::format("{}/{}", name, ranks.front()));
  auto backend = members.guarded("connection", [&] {
    return c10::make_intrusive<ProcessGroupGloo>(store, rank, static_cast<int>(ranks.size()),
                                                 options);
  });
  return std::make_unique<GlooGroup>(std::move(members), rank, std::move(backend));
}

std::vector<int> group_members(int rank, int size, int stride) {
  const int first = rank / (size * stride) * (size * stride) + rank % stride;
  std::vector<int> members;
  for (int i = 0; i < size; ++i) members.push_back(first + i * stride);
  return members;
}

}  // namespace xt
