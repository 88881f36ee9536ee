#include "executor/communicators/gloo.h"

// The only file that sees Gloo. The torch wheel holds Gloo's code inside libtorch_cpu but none of
// its headers, so the headers in gloo_stub/ name what ProcessGroupGloo.hpp needs to be read. That
// is safe as long as this file makes a device, options and a ProcessGroupGloo and nothing else:
// no GlooStore, no gloo:: function, no ProcessGroupGlooDetail.hpp.

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/thread_pool.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "executor/communicators/single_rank.h"
#include "executor/communicators/sum_ranks.h"

namespace xt {
namespace {

using c10d::ProcessGroupGloo;
using std::chrono::steady_clock;
using Started = c10::intrusive_ptr<c10d::Work>;
using Parts = std::vector<at::Tensor>;  ///< of a tensor, one a rank

constexpr int tag = 0;  // messages of one tag and between two ranks keep their order
constexpr int probe_tag = 1;
constexpr std::chrono::milliseconds first_probe{500};

/// What the threads that wait and the issuing thread share about one collective.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t n_outstanding = 0;
  std::exception_ptr error;
  steady_clock::time_point when;
  std::function<void()> finish;     ///< local work of the last to arrive
  std::vector<at::Tensor> tensors;  ///< kept alive until all have arrived
  std::vector<Started> sent;        ///< as long

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
    if (--n_outstanding == 0) {
      tensors.clear();
      sent.clear();
    }
    if (!is_settled()) return;
    when = steady_clock::now();
    changed.notify_all();
  }

  /// Ends all waiting, whatever is outstanding.
  void give_up(const std::exception_ptr& failure) {
    std::unique_lock lock(mutex);
    if (is_settled()) return;
    error = failure;
    when = steady_clock::now();
    changed.notify_all();
    const std::vector<Started> stuck = sent;
    lock.unlock();
    for (const Started& one : stuck) one->abort();
  }

  /// Whether there is nothing to wait for. Behind a failure the rest may never arrive: who should
  /// send it may wait for this rank, which is to say that a rank is lost.
  ///
  /// Assumes: the mutex is held
  [[nodiscard]] bool is_settled() const { return n_outstanding == 0 || error != nullptr; }
};

/// The members of a group, what connects them, and where to ask who is missing.
struct Members {
  Rendezvous& rendezvous;
  std::string name;
  std::vector<int> ranks;
  c10::intrusive_ptr<ProcessGroupGloo> backend;  ///< null until they are connected

  /// Why the connection with the one at `place` is closed; null if it is not, or nobody knows yet.
  /// Asks for a byte that never comes.
  [[nodiscard]] std::exception_ptr failure_of(int place) const {
    if (!backend || place == backend->getRank()) return nullptr;
    try {
      std::vector<at::Tensor> byte{at::empty({1}, at::kByte)};
      backend->recv(byte, place, probe_tag);
      return nullptr;
    } catch (const std::exception&) {
      return std::current_exception();
    }
  }

  /// Why any of the connections is closed; null if none is known to be.
  [[nodiscard]] std::exception_ptr failure() const {
    for (int place = 0; place < std::ssize(ranks); ++place)
      if (std::exception_ptr failure = failure_of(place)) return failure;
    return nullptr;
  }

  /// The ranks with which connections are closed.
  [[nodiscard]] std::vector<int> closed() const {
    std::vector<int> closed;
    for (int place = 0; place < std::ssize(ranks); ++place)
      if (failure_of(place)) closed.push_back(ranks[static_cast<std::size_t>(place)]);
    return closed;
  }

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
      throw PeerLost(fmt::format("{} of group {}", op, name),
                     rendezvous.find_lost_rank(ranks, [this] { return closed(); }),
                     std::string(reason.substr(0, reason.find('\n'))));
    }
  }
};

class GlooPending final : public Pending {
 public:
  GlooPending(const char* op, std::shared_ptr<const Members> members,
              std::shared_ptr<Completion> completion)
      : op_(op), members_(std::move(members)), completion_(std::move(completion)) {}

  /// A message that Gloo begins to write when the other rank has asked for it and is gone is
  /// neither sent nor fails: its connection is closed, and who waits for long looks at that.
  ///
  /// Source: pytorch/gloo, gloo/transport/tcp/pair.cc, Pair::handleRemotePendingRecv, which takes
  /// the message out of its queue, and Pair::sendAsyncMode, which puts it nowhere on an error
  void wait() override {
    std::unique_lock lock(completion_->mutex);
    const auto is_settled = [&] { return completion_->is_settled(); };
    for (auto patience = first_probe; !completion_->changed.wait_for(lock, patience, is_settled);
         patience *= 2) {
      lock.unlock();
      if (const std::exception_ptr failure = members_->failure()) completion_->give_up(failure);
      lock.lock();
    }
    if (!completion_->error) return;
    const std::exception_ptr error = completion_->error;
    lock.unlock();
    members_->guarded(op_, [&] { std::rethrow_exception(error); });
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

Parts parts_of(const at::Tensor& x, std::span<const std::int64_t> rows) {
  return x.split_with_sizes(at::IntArrayRef(rows.data(), rows.size()));
}

Parts equal_parts(const at::Tensor& x, int n_ranks) {
  XT_CHECK(x.numel() % n_ranks == 0, x.numel(), n_ranks);
  return parts_of(x.view({-1}),
                  std::vector(static_cast<std::size_t>(n_ranks), x.numel() / n_ranks));
}

/// What goes between this rank and another; null where there is nothing to send.
struct Transfer {
  Started received;
  Started sent;
};

/// Waits for both; null if they succeed. Keeps nothing of them.
std::exception_ptr failure_of(Transfer& waited_for) {
  const Transfer transfer = std::exchange(waited_for, {});
  try {
    if (transfer.received) transfer.received->wait();
    if (transfer.sent) transfer.sent->wait();
    return nullptr;
  } catch (const std::exception&) {
    return std::current_exception();
  }
}

class GlooGroup final : public Communicator {
 public:
  GlooGroup(Members members, int rank)
      : Communicator(rank, static_cast<int>(members.ranks.size())),
        members_(std::make_shared<const Members>(std::move(members))),
        backend_(members_->backend),
        waiting_(size() - 1) {}

  PendingCollective all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    XT_CHECK(full.is_contiguous() && shard.is_contiguous());
    const Parts own(static_cast<std::size_t>(size()), shard.view({-1}));
    return exchange("all_gather", equal_parts(full, size()), own);
  }

  PendingCollective reduce_scatter(const at::Tensor& shard, const at::Tensor& full,
                                   const at::Tensor& scratch) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    XT_CHECK(scratch.numel() == full.numel(), scratch.numel(), full.numel());
    XT_CHECK(scratch.scalar_type() == full.scalar_type() && shard.is_contiguous());
    return exchange("reduce_scatter", equal_parts(scratch, size()), equal_parts(full, size()),
                    [shard, scratch] { sum_ranks(shard, scratch); });
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent) override {
    XT_CHECK(received.numel() == sent.numel(), received.numel(), sent.numel());
    return exchange("all_to_all", equal_parts(received, size()), equal_parts(sent, size()));
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent,
                               std::span<const std::int64_t> received_rows,
                               std::span<const std::int64_t> sent_rows) override {
    XT_CHECK(std::ssize(received_rows) == size() && std::ssize(sent_rows) == size());
    XT_CHECK(received.is_contiguous() && sent.is_contiguous());
    return exchange("all_to_all", parts_of(received, received_rows), parts_of(sent, sent_rows));
  }

  PendingCollective all_reduce(const at::Tensor& x) override {
    XT_CHECK(x.is_contiguous());
    return issue("all_reduce", {x}, [&] {
      std::vector<at::Tensor> tensors{x};
      return backend_->allreduce(tensors);
    });
  }

  PendingCollective broadcast(const at::Tensor& x, int root) override {
    XT_CHECK(x.is_contiguous());
    return issue("broadcast", {x}, [&] {
      std::vector<at::Tensor> tensors{as_bytes(x)};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      return backend_->broadcast(tensors, options);
    });
  }

  PendingCollective barrier() override {
    const at::Tensor token = at::zeros({1}, at::kByte);
    return issue("barrier", {token}, [&] {
      std::vector<at::Tensor> tensors{token};
      return backend_->allreduce(tensors);
    });
  }

 private:
  /// Part i of `sent` goes to rank i, and part i of `received` comes from it; `finish` follows when
  /// all is there.
  PendingCollective exchange(const char* op, const Parts& received, const Parts& sent,
                             std::function<void()> finish = {}) {
    auto completion = std::make_shared<Completion>();
    completion->n_outstanding = received.size();
    completion->finish = std::move(finish);
    completion->tensors = received;
    completion->tensors.insert(completion->tensors.end(), sent.begin(), sent.end());
    std::vector<Transfer> transfers = members_->guarded(op, [&] { return start(received, sent); });
    for (const Transfer& transfer : transfers)
      if (transfer.sent) completion->sent.push_back(transfer.sent);
    for (Transfer& transfer : transfers)
      waiting_.run([transfer = std::move(transfer), completion]() mutable {
        completion->arrive(failure_of(transfer));
      });
    const auto own = static_cast<std::size_t>(rank());
    if (received[own].data_ptr() != sent[own].data_ptr()) received[own].copy_(sent[own]);
    completion->arrive(nullptr);
    return std::make_unique<GlooPending>(op, members_, std::move(completion));
  }

  /// Transfers with every other rank. All that is to come is asked for before anything is sent:
  /// Gloo asks on the connection that carries what goes the other way. A rank that comes late and
  /// sends first asks behind what it sends, and the other one sends when that is through: one
  /// direction after the other.
  ///
  /// Source: pytorch/gloo, gloo/transport/tcp/pair.cc, Pair::send and Pair::recv (an exchange of
  /// gloo/alltoall.cc sends first)
  std::vector<Transfer> start(const Parts& received, const Parts& sent) {
    std::vector<Transfer> transfers(received.size() - 1);
    for (std::size_t i = 0; i < transfers.size(); ++i)
      transfers[i].received = start(&ProcessGroupGloo::recv, received, peer(i));
    for (std::size_t i = 0; i < transfers.size(); ++i)
      transfers[i].sent = start(&ProcessGroupGloo::send, sent, peer(i));
    return transfers;
  }

  using Move = Started (ProcessGroupGloo::*)(std::vector<at::Tensor>&, int, int);

  /// Null where the part is empty.
  Started start(Move move, const Parts& parts, int with) {
    std::vector<at::Tensor> part{parts[static_cast<std::size_t>(with)]};
    XT_CHECK(part.front().is_contiguous());
    return part.front().numel() > 0 ? (*backend_.*move)(part, with, tag) : Started{};
  }

  /// The ranks behind this one, in turn.
  [[nodiscard]] int peer(std::size_t i) const {
    return (rank() + 1 + static_cast<int>(i)) % size();
  }

  template <typename Start>
  PendingCollective issue(const char* op, std::vector<at::Tensor> tensors, const Start& start) {
    const Started work = members_->guarded(op, start);
    auto completion = std::make_shared<Completion>();
    completion->n_outstanding = 1;
    completion->tensors = std::move(tensors);
    work->getFuture()->addCallback([completion](c10::ivalue::Future& future) {
      completion->arrive(future.hasError() ? future.exception_ptr() : nullptr);
    });
    return std::make_unique<GlooPending>(op, members_, std::move(completion));
  }

  std::shared_ptr<const Members> members_;
  c10::intrusive_ptr<ProcessGroupGloo> backend_;
  /// A thread for each other rank: who is lost is heard of whoever else is waited for.
  c10::ThreadPool waiting_;
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
  Members members{rendezvous_, std::string(name), {ranks.begin(), ranks.end()}, nullptr};
  const int rank = static_cast<int>(own - ranks.begin());
  const auto store = rendezvous_.store_of(fmt::format("{}/{}", name, ranks.front()));
  members.backend = members.guarded("connection", [&] {
    return c10::make_intrusive<ProcessGroupGloo>(store, rank, static_cast<int>(ranks.size()),
                                                 options);
  });
  return std::make_unique<GlooGroup>(std::move(members), rank);
}

std::vector<int> group_members(int rank, int size, int stride) {
  const int first = rank / (size * stride) * (size * stride) + rank % stride;
  std::vector<int> members;
  for (int i = 0; i < size; ++i) members.push_back(first + i * stride);
  return members;
}

}  // namespace xt
