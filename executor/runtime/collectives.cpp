#include "executor/runtime/collectives.h"

#include <ATen/ATen.h>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

PendingCollective start(Communicator& group, Kernel kernel, std::span<const at::Tensor> inputs,
                        std::span<const at::Tensor> outputs) {
  if (kernel == Kernel::all_gather) return group.all_gather(outputs[0], inputs[0]);
  if (kernel == Kernel::reduce_scatter) {
    XT_CHECK(outputs.size() == 2);
    return group.reduce_scatter(outputs[0], inputs[0], outputs[1]);
  }
  if (kernel == Kernel::all_reduce) return group.all_reduce(outputs[0]);
  if (kernel == Kernel::exchange_counts) return group.all_to_all(outputs[0], inputs[0]);
  XT_CHECK(kernel == Kernel::all_to_all, name(kernel));
  return group.all_to_all(outputs[0], inputs[0], rows_by_rank(inputs[2], group.size()),
                          rows_by_rank(inputs[1], group.size()));
}

// Heads of `few` [ranks·T,h,D], tokens of rank by rank, as `whole` [T,ranks·h,D] has them.
at::Tensor by_rank(const at::Tensor& whole, const at::Tensor& few, std::int64_t ranks) {
  return whole.view({whole.size(0), ranks, few.size(1), few.size(2)}).transpose(0, 1);
}

// Tokens of all heads to heads of all tokens, or back, by which of the two `received` is.
std::chrono::steady_clock::time_point exchange_heads(Communicator& group, const at::Tensor& sent,
                                                     const at::Tensor& received,
                                                     const at::Tensor& scratch) {
  const std::int64_t ranks = group.size();
  const bool gathers_tokens = received.size(0) == sent.size(0) * ranks;
  const auto parts_of = [&](const at::Tensor& whole, const at::Tensor& few) {
    XT_CHECK(whole.size(0) * ranks == few.size(0) && whole.size(1) == few.size(1) * ranks,
             whole.size(0), few.size(0));
    return scratch.view({ranks, whole.size(0), few.size(1), few.size(2)});
  };
  if (gathers_tokens) {
    parts_of(sent, received).copy_(by_rank(sent, received, ranks));
    const PendingCollective pending = group.all_to_all(received, scratch);
    pending->wait();
    return pending->completed();
  }
  group.all_to_all(scratch, sent)->wait();
  by_rank(received, sent, ranks).copy_(parts_of(received, sent));
  return std::chrono::steady_clock::now();
}

}  // namespace

std::vector<std::int64_t> rows_by_rank(const at::Tensor& counts, std::int64_t ranks) {
  const std::int64_t per_rank = counts.numel() / ranks;
  XT_CHECK(per_rank * ranks == counts.numel(), counts.numel(), ranks);
  const std::int64_t* count = counts.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> rows;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < per_rank; ++i) sum += *count++;
    rows.push_back(sum);
  }
  return rows;
}

std::chrono::steady_clock::time_point run_collective(Communicator& group, Kernel kernel,
                                                     std::span<const at::Tensor> inputs,
                                                     std::span<const at::Tensor> outputs) {
  if (kernel == Kernel::exchange_heads) {
    XT_CHECK(outputs.size() == 2);
    return exchange_heads(group, inputs[0], outputs[0], outputs[1]);
  }
  const PendingCollective pending = start(group, kernel, inputs, outputs);
  pending->wait();
  return pending->completed();
}

}  // namespace xt
