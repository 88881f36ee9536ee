#include "executor/train/checkpointer.h"

#include <chrono>
#include <utility>

#include "costmodel/io/schedule_lines.h"
#include "executor/checkpoints/element_digest.h"

namespace xt {

StateDigests sum_over_ranks(World& world, const StateDigests& own) {
  std::vector<std::int64_t> sent;
  for (const std::uint64_t digest : own) sent.push_back(static_cast<std::int64_t>(digest));
  const std::vector<std::int64_t> all = world.gather(sent);
  StateDigests sums{};
  for (std::size_t i = 0; i < all.size(); ++i)
    sums[i % sums.size()] += static_cast<std::uint64_t>(all[i]);
  return sums;
}

Checkpointer::Checkpointer(CheckpointStore store, const Schedule& schedule, World world,
                           std::vector<std::int64_t> kept, std::size_t keep)
    : store_(std::move(store)),
      world_(std::move(world)),
      snapshot_(schedule, world_.rank()),
      states_(kept_states(schedule)),
      kept_(std::move(kept)),
      keep_(keep) {}

void Checkpointer::begin(const BufferMemory& memory, CheckpointFile file, WrittenLines metrics) {
  wait();
  snapshot_.take(memory);
  writing_ = std::async(
      std::launch::async,
      [this, file = std::move(file), metrics = std::move(metrics)] { write(file, metrics); });
}

void Checkpointer::check() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    writing_.get();
}

void Checkpointer::wait() {
  if (writing_.valid()) writing_.get();
}

// Files are there when the first gather has come, whole when the second has.
void Checkpointer::write(CheckpointFile file, const WrittenLines& metrics) {
  const std::int64_t step = file.position.step;
  const std::filesystem::path folder = store_.temporary(step);
  if (is_first()) {
    store_.begin(step);
    snapshot_.begin(folder);
  }
  world_.wait();
  const StateDigests digests = sum_over_ranks(world_, snapshot_.write(folder));
  if (!is_first()) return;
  snapshot_.publish();
  for (const std::size_t state : states_)
    file.state_digests.entries.emplace_back(state_names[state], digest_text(digests[state]));
  file.metrics_digest = digest_text(metrics.digest);
  store_.publish(file, metrics);
  kept_.push_back(step);
  while (kept_.size() > keep_) kept_.erase(kept_.begin());
  store_.keep_only(kept_);
}

}  // namespace xt
