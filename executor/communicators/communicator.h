#pragma once

// Collectives in our own terms. One thread of a rank issues all of them, every rank of a group in
// the same order; what was issued runs by itself and is waited for through its Pending. Knows no
// backend: gloo.h, single_rank.h and later device libraries implement it.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace xt {

/// A rank of the group died, or did not answer in time, while a collective needed it.
class PeerLost : public std::runtime_error {
 public:
  PeerLost(std::string op, std::optional<int> lost_rank, const std::string& reason);

  /// The collective that failed.
  [[nodiscard]] const std::string& op() const { return op_; }
  /// The rank in the world that was lost, if anybody knows.
  [[nodiscard]] std::optional<int> lost_rank() const { return lost_rank_; }

 private:
  std::string op_;
  std::optional<int> lost_rank_;
};

/// A collective that was issued. Keeps its tensors alive until it is done.
class Pending {
 public:
  Pending() = default;
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Returns when the result is there.
  ///
  /// Throws: PeerLost
  virtual void wait() = 0;

  /// When the result was there, taken by the thread that completed it.
  ///
  /// Assumes: wait() has returned
  [[nodiscard]] virtual std::chrono::steady_clock::time_point completed() const = 0;
};

using PendingCollective = std::unique_ptr<Pending>;

/// A group of ranks as seen by one of them. Tensors are contiguous; an op returns as soon as it is
/// issued and its tensors must not be touched before the wait.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The position of this rank in the group.
  [[nodiscard]] int rank() const { return rank_; }
  /// How many ranks the group has.
  [[nodiscard]] int size() const { return size_; }

  /// `full` becomes the shards of all ranks in rank order. `shard` may be this rank's part of it.
  ///
  /// Shapes: full [size·n], shard [n]; no memory is taken beside them
  [[nodiscard]] virtual PendingCollective all_gather(const at::Tensor& full,
                                                     const at::Tensor& shard) = 0;

  /// `shard` becomes this rank's part of the sum over ranks of `full`, added in rank order in fp32:
  /// the same bits on every run.
  ///
  /// Shapes: shard [n] in fp32; full and scratch [size·n] in fp32, bf16 or fp16
  [[nodiscard]] virtual PendingCollective reduce_scatter(const at::Tensor& shard,
                                                         const at::Tensor& full,
                                                         const at::Tensor& scratch) = 0;

  /// Part i of `sent` goes to rank i, and part i of `received` comes from it. Parts are equal.
  [[nodiscard]] virtual PendingCollective all_to_all(const at::Tensor& received,
                                                     const at::Tensor& sent) = 0;

  /// The same with `received_rows[i]` and `sent_rows[i]` rows (of dimension 0) per rank.
  [[nodiscard]] virtual PendingCollective all_to_all(const at::Tensor& received,
                                                     const at::Tensor& sent,
                                                     std::span<const std::int64_t> received_rows,
                                                     std::span<const std::int64_t> sent_rows) = 0;

  /// `x` becomes its sum over ranks.
  [[nodiscard]] virtual PendingCollective all_reduce(const at::Tensor& x) = 0;

  /// `x` becomes that of rank `root`.
  [[nodiscard]] virtual PendingCollective broadcast(const at::Tensor& x, int root) = 0;

  /// Done when every rank has issued it.
  [[nodiscard]] virtual PendingCollective barrier() = 0;

 private:
  int rank_;
  int size_;
};

/// Makes groups of ranks.
class Network {
 public:
  Network() = default;
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// The group `name` of `ranks`; a group of one copies and has no network. All of `ranks` make it,
  /// with the same arguments, and make their groups in the same order.
  ///
  /// Throws: PeerLost if one of them does not come
  virtual std::unique_ptr<Communicator> group(std::string_view name,
                                              std::span<const int> ranks) = 0;
};

}  // namespace xt
