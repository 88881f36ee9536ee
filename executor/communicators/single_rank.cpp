#include "executor/communicators/single_rank.h"

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

class Done final : public Pending {
 public:
  void wait() override {}
  [[nodiscard]] std::chrono::steady_clock::time_point completed() const override {
    return completed_;
  }

 private:
  std::chrono::steady_clock::time_point completed_ = std::chrono::steady_clock::now();
};

PendingCollective copied(const at::Tensor& to, const at::Tensor& from) {
  XT_CHECK(to.numel() == from.numel(), to.numel(), from.numel());
  if (to.data_ptr() != from.data_ptr()) at::Tensor(to).view({-1}).copy_(from.view({-1}));
  return std::make_unique<Done>();
}

class SingleRank final : public Communicator {
 public:
  SingleRank() : Communicator(0, 1) {}

  PendingCollective all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    return copied(full, shard);
  }
  PendingCollective reduce_scatter(const at::Tensor& shard, const at::Tensor& full,
                                   const at::Tensor& scratch) override {
    XT_CHECK(scratch.numel() == full.numel(), scratch.numel(), full.numel());
    return copied(shard, full);
  }
  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent) override {
    return copied(received, sent);
  }
  PendingCollective all_to_all(const at::Tensor& received, const at::Tensor& sent,
                               std::span<const std::int64_t> received_rows,
                               std::span<const std::int64_t> sent_rows) override {
    XT_CHECK(received_rows.size() == 1 && sent_rows.size() == 1);
    XT_CHECK(received_rows[0] == sent_rows[0], received_rows[0], sent_rows[0]);
    return copied(received, sent);
  }
  PendingCollective all_reduce(const at::Tensor&) override { return std::make_unique<Done>(); }
  PendingCollective broadcast(const at::Tensor&, int root) override {
    XT_CHECK(root == 0, root);
    return std::make_unique<Done>();
  }
  PendingCollective barrier() override { return std::make_unique<Done>(); }
};

}  // namespace

std::unique_ptr<Communicator> single_rank_communicator() { return std::make_unique<SingleRank>(); }

}  // namespace xt
