#include "executor/cuda/nccl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>
#include <cstdlib>

#include "costmodel/diagnostics/check.h"
#include "executor/communicators/single_rank.h"

namespace xt {
namespace {

using c10d::ProcessGroupNCCL;
using std::chrono::steady_clock;

/// In the order of its stream; what reads the result comes behind it.
class InOrder final : public Pending {
 public:
  void wait() override {}
  [[nodiscard]] steady_clock::time_point completed() const override { return issued_; }

 private:
  steady_clock::time_point issued_ = steady_clock::now();
};

template <typename Options>
Options on_current_stream() {
  Options options;
  options.asyncOp = false;
  return options;
}

constexpr std::chrono::seconds timeout{300};

/// The ranks of a group, and who to ask when one is gone.
struct Members {
  Rendezvous& rendezvous;
  std::string name;
  std::vector<int> ranks;

  /// Runs `action`. A wrong argument stays what it is; what NCCL or the store reports is a rank
  /// that is gone.
  template <typename Action>
  void guarded(const char* op, const Action& action) const {
    try {
      action();
    } catch (const c10::DistError& error) {
      const std::string reason = error.what_without_backtrace();
      throw PeerLost(fmt::format("{} of group {}", op, name), rendezvous.find_lost_rank(ranks),
                     reason.substr(0, reason.find('\n')));
    }
  }
};

class NcclGroup final : public Communicator, public WatchedGroup {
 public:
  NcclGroup(Members members, int rank, c10::intrusive_ptr<ProcessGroupNCCL> backend,
            std::shared_ptr<PeerWatch> watch)
      : Communicator(rank, static_cast<int>(members.ranks.size())),
        members_(std::move(members)),
        backend_(std::move(backend)),
        watch_(std::move(watch)) {
    watch_->add(*this);
  }
  ~NcclGroup() override {
    watch_->remove(*this);
    backend_->shutdown();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  [[nodiscard]] std::string what() const override {
    return fmt::format("collectives of group {}", members_.name);
  }
  [[nodiscard]] std::span<const int> ranks() const override { return members_.ranks; }
  // LibTorch's thread asks ncclCommGetAsyncError and how long each collective has taken.
  [[nodiscard]] std::optional<std::string> error() override {
    const c10d::ErrorType error = backend_->getError();
    if (error == c10d::ErrorType::SUCCESS) return std::nullopt;
    if (error == c10d::ErrorType::TIMEOUT) return fmt::format("no answer in {} s", timeout.count());
    return "NCCL reports an error";
  }
  void abort() override { backend_->abort(); }

  PendingCollective all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    at::Tensor to = full.view({-1}), from = shard.view({-1});
    return issue("all_gather", [&] {
      backend_->_allgather_base(to, from, on_current_stream<c10d::AllgatherOptions>());
    });
  }

  // An exchange and a sum in rank order, as on CPUs, for the same bits on every run.
  PendingCollective reduce_scatter(const at::Tensor& shard, const at::Tensor& full,
                                   const at::Tensor& scratch) override {
    XT_CHECK(full.numel() == size() * shard.numel(), full.numel(), shard.numel());
    XT_CHECK(scratch.numel() == full.numel(), scratch.numel(), full.numel());
    exchange("reduce_scatter", scratch.view({-1}), full.view({-1}), {}, {});
    at::Tensor sum = shard.view({-1});
    at::sum_out(sum, scratch.view({size(), -1}), at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat);
    return std::make_unique<InOrder>();
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent) override {
    XT_CHECK(received.numel() == sent.numel(), received.numel(), sent.numel());
    return exchange("all_to_all", received.view({-1}), sent.view({-1}), {}, {});
  }

  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent,
                               std::span<const std::int64_t> received_rows,
                               std::span<const std::int64_t> sent_rows) override {
    XT_CHECK(std::ssize(received_rows) == size() && std::ssize(sent_rows) == size());
    return exchange("all_to_all", received, sent, {received_rows.begin(), received_rows.end()},
                    {sent_rows.begin(), sent_rows.end()});
  }

  PendingCollective all_reduce(const at::Tensor& x) override {
    std::vector<at::Tensor> tensors{x};
    return issue("all_reduce", [&] {
      backend_->allreduce(tensors, on_current_stream<c10d::AllreduceOptions>());
    });
  }

  PendingCollective broadcast(const at::Tensor& x, int root) override {
    std::vector<at::Tensor> tensors{x};
    auto options = on_current_stream<c10d::BroadcastOptions>();
    options.rootRank = root;
    return issue("broadcast", [&] { backend_->broadcast(tensors, options); });
  }

  PendingCollective barrier() override {
    return issue("barrier", [&] { backend_->barrier()->wait(); });
  }

 private:
  PendingCollective exchange(const char* op, at::Tensor to, at::Tensor from,
                             std::vector<std::int64_t> received, std::vector<std::int64_t> sent) {
    XT_CHECK(to.is_contiguous() && from.is_contiguous());
    return issue(op, [&] {
      backend_->alltoall_base(to, from, received, sent, on_current_stream<c10d::AllToAllOptions>());
    });
  }

  template <typename Start>
  PendingCollective issue(const char* op, const Start& start) {
    watch_->check();
    members_.guarded(op, start);
    return std::make_unique<InOrder>();
  }

  Members members_;
  c10::intrusive_ptr<ProcessGroupNCCL> backend_;
  std::shared_ptr<PeerWatch> watch_;
};

class NcclNetwork final : public Network {
 public:
  NcclNetwork(Rendezvous& rendezvous, int device, std::shared_ptr<PeerWatch> watch)
      : rendezvous_(rendezvous), device_(device), watch_(std::move(watch)) {
    // LibTorch's thread notes errors and leaves the process, and what runs in it, to the watch.
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  }

  std::unique_ptr<Communicator> group(std::string_view name, std::span<const int> ranks) override {
    const auto own = std::ranges::find(ranks, rendezvous_.place().rank);
    XT_CHECK(own != ranks.end(), rendezvous_.place().rank, name);
    if (ranks.size() == 1) return single_rank_communicator();
    const auto options = ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = timeout;
    options->group_name = std::string(name);
    const int rank = static_cast<int>(own - ranks.begin());
    const auto store = rendezvous_.store_of(fmt::format("nccl/{}/{}", name, ranks.front()));
    Members members{rendezvous_, std::string(name), {ranks.begin(), ranks.end()}};
    c10::intrusive_ptr<ProcessGroupNCCL> backend;
    members.guarded("connection", [&] {
      backend = c10::make_intrusive<ProcessGroupNCCL>(store, rank, static_cast<int>(ranks.size()),
                                                      options);
      backend->eagerConnectSingleDevice(
          at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device_)));
    });
    return std::make_unique<NcclGroup>(std::move(members), rank, std::move(backend), watch_);
  }

 private:
  Rendezvous& rendezvous_;
  int device_;
  std::shared_ptr<PeerWatch> watch_;
};

}  // namespace

std::unique_ptr<Network> nccl_network(Rendezvous& rendezvous, int device,
                                      std::shared_ptr<PeerWatch> watch) {
  return std::make_unique<NcclNetwork>(rendezvous, device, std::move(watch));
}

}  // namespace xt
