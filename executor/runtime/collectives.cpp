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
  const PendingCollective pending = start(group, kernel, inputs, outputs);
  pending->wait();
  return pending->completed();
}

}  // namespace xt
