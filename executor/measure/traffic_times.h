#pragma once

// Times of collectives between the ranks, and of copies between device and host memory.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/measure/measurements.h"
#include "executor/measure/rounds.h"

namespace xt {

/// One message of each traffic kind, with operands that are made once and used again.
class Messages {
 public:
  /// For messages of at most `largest_bytes` over `group`, from and to tensors at `place`.
  Messages(Communicator& group, std::int64_t largest_bytes, c10::Device place);

  /// Makes what is sent fresh random numbers: sums of sums would grow without end.
  void refresh();

  /// Sends one message of about `bytes`; returns when the result is there.
  ///
  /// Throws: PeerLost
  void send(Kernel kernel, std::int64_t bytes);

  /// The bytes, as costmodel/cost counts them, of a message of about `bytes`; at least the
  /// smallest.
  [[nodiscard]] std::int64_t whole(Kernel kernel, std::int64_t bytes) const;

 private:
  Communicator& group_;
  at::Tensor large_;
  at::Tensor scratch_;
  at::Tensor shard_;
  at::Tensor counts_;  ///< the host's
};

/// The bytes of messages that are measured, ascending.
std::vector<std::int64_t> message_sizes(Coverage coverage);

/// The collectives that have curves of their own.
inline constexpr std::array<Kernel, 4> timed_collectives = {
    Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all};

/// The times of every collective over all ranks and over every smaller group of neighbours. Where a
/// link is slow, messages end with the first that takes 20 ms: beyond it a curve is flat, and the
/// median of a few repeats is not, where a library has two ways to interleave sending and
/// receiving.
std::vector<TrafficTimes> time_collectives(Session& session, Coverage coverage,
                                           const RoundPlan& plan);

/// The times of copies to the host and back, made by the interpreter of schedules.
std::pair<TrafficTimes, TrafficTimes> time_copies(Session& session, Coverage coverage,
                                                  const RoundPlan& plan);

}  // namespace xt
