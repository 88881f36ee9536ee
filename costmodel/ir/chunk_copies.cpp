#include "costmodel/ir/chunk_copies.h"

#include <algorithm>
#include <utility>

namespace xt {
namespace {

bool waits(std::span<const ChunkRun> order, std::size_t i) {
  return i == 0 || order[i].is_backward || !order[i - 1].is_backward;
}

bool offloads(const Stage& stage, const ChunkRun& run) {
  return stage.chunks[static_cast<std::size_t>(run.chunk)].offloads;
}

// The backward pass at the next point behind `i` where copies are waited for, if it needs one.
std::optional<ChunkRun> wanted_next(const Stage& stage, std::span<const ChunkRun> order,
                                    std::size_t i) {
  do ++i;
  while (i < order.size() && !waits(order, i));
  if (i == order.size() || !order[i].is_backward || !offloads(stage, order[i])) return std::nullopt;
  return order[i];
}

}  // namespace

std::vector<PassCopies> copies_of(const Stage& stage, std::span<const ChunkRun> order) {
  std::vector<PassCopies> result(order.size());
  std::vector<ChunkRun> made;
  for (std::size_t i = 0; i < order.size(); ++i) {
    PassCopies& copies = result[i];
    copies.waits = waits(order, i);
    if (copies.waits) {
      copies.out = std::exchange(made, {});
      copies.in = wanted_next(stage, order, i);
      copies.in_follows_out =
          copies.in && std::ranges::any_of(copies.out, [&](const ChunkRun& of) {
            return of.chunk == copies.in->chunk && of.micro_batch == copies.in->micro_batch;
          });
    }
    if (!order[i].is_backward && offloads(stage, order[i])) made.push_back(order[i]);
  }
  return result;
}

}  // namespace xt
