#include "executor/cuda/nccl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>

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
  [[nodiscard]] bool is_done() const override { return true; }
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

class NcclGroup final : public Communicator {
 public:
  NcclGroup(Rendezvous& rendezvous, std::string name, std::vector<int> ranks, int rank,
            c10::intrusive_ptr<ProcessGroupNCCL> backend)
      : Communicator(rank, static_cast<int>(ranks.size())),
        rendezvous_(rendezvous),
        name_(std::move(name)),
        ranks_(std::move(ranks)),
        backend_(std::move(backend)) {}
  ~NcclGroup() override { backend_->shutdown(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

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

  /// A wrong argument stays what it is; what NCCL reports is a rank that is gone.
  template <typename Start>
  PendingCollective issue(const char* op, const Start& start) {
    try {
      start();
    } catch (const c10::DistBackendError& error) {
      const std::string reason = error.what_without_backtrace();
      throw PeerLost(fmt::format("{} of group {}", op, name_), rendezvous_.find_lost_rank(ranks_),
                     reason.substr(0, reason.find('\n')));
    }
    return std::make_unique<InOrder>();
  }

  Rendezvous& rendezvous_;
  std::string name_;
  std::vector<int> ranks_;
  c10::intrusive_ptr<ProcessGroupNCCL> backend_;
};

class NcclNetwork final : public Network {
 public:
  NcclNetwork(Rendezvous& rendezvous, int device) : rendezvous_(rendezvous), device_(device) {}

  std::unique_ptr<Communicator> group(std::string_view name, std::span<const int> ranks) override {
    const auto own = std::ranges::find(ranks, rendezvous_.place().rank);
    XT_CHECK(own != ranks.end(), rendezvous_.place().rank, name);
    if (ranks.size() == 1) return single_rank_communicator();
    const auto options = ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = timeout;
    options->group_name = std::string(name);
    const int rank = static_cast<int>(own - ranks.begin());
    const auto store = rendezvous_.store_of(fmt::format("nccl/{}/{}", name, ranks.front()));
    auto backend =
        c10::make_intrusive<ProcessGroupNCCL>(store, rank, static_cast<int>(ranks.size()), options);
    backend->eagerConnectSingleDevice(
        at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device_)));
    return std::make_unique<NcclGroup>(rendezvous_, std::string(name),
                                       std::vector<int>(ranks.begin(), ranks.end()), rank,
                                       std::move(backend));
  }

 private:
  static constexpr std::chrono::seconds timeout{300};

  Rendezvous& rendezvous_;
  int device_;
};

}  // namespace

std::unique_ptr<Network> nccl_network(Rendezvous& rendezvous, int device) {
  return std::make_unique<NcclNetwork>(rendezvous, device);
}

}  // namespace xt
