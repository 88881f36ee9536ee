#include "executor/train/watcher.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "executor/runtime/activity_board.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

/// How long the ranks that stand still wait for each other's word.
constexpr std::chrono::seconds patience(3);
constexpr std::chrono::milliseconds poll_interval(100);

std::string moves_key(int rank) { return fmt::format("stalled/{}/moves", rank); }
std::string place_key(int rank) { return fmt::format("stalled/{}/place", rank); }

/// The message: on its first line who is in the way of what, below where each rank stands.
std::string stall_text(std::chrono::seconds still, int culprit, int speaker,
                       const std::vector<std::optional<std::string>>& places) {
  const auto place = [&](int rank) { return places[static_cast<std::size_t>(rank)]; };
  std::string text =
      fmt::format("nothing has moved for {} s; rank {} is in the way", still.count(), culprit);
  text += place(culprit) ? fmt::format(" at {}", *place(culprit))
                         : fmt::format(" of rank {} at {}", speaker, place(speaker).value_or("?"));
  for (int rank = 0; rank < std::ssize(places); ++rank)
    text += fmt::format("\n  rank {}: {}", rank, place(rank).value_or("does not answer"));
  return text;
}

}  // namespace

Watcher::Watcher(const Schedule& schedule, const StepActivity& activity, Rendezvous& rendezvous,
                 std::chrono::seconds timeout, OnStall on_stall)
    : schedule_(schedule),
      activity_(activity),
      rendezvous_(rendezvous),
      timeout_(timeout),
      on_stall_(std::move(on_stall)),
      thread_([this] { watch(); }) {}

Watcher::~Watcher() {
  {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool Watcher::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return has_ended_; });
}

// Time counts in pauses, so that a machine or a process that was asleep has not stood still.
void Watcher::watch() {
  std::int64_t seen = activity_.n_moves;
  std::chrono::milliseconds still{};
  while (pause(poll_interval)) {
    const std::int64_t now = activity_.n_moves;
    still = now == seen ? still + poll_interval : std::chrono::milliseconds(0);
    seen = now;
    if (still < timeout_) continue;
    try {
      return ask_others();
    } catch (const std::exception&) {
      return;  // the store is gone, and the run with it, which others say
    }
  }
}

void Watcher::ask_others() {
  const int own = rendezvous_.place().rank, n = rendezvous_.place().world_size;
  rendezvous_.say(place_key(own), describe(activity_, schedule_));
  rendezvous_.say(moves_key(own), std::to_string(activity_.n_moves));
  if (!pause(patience)) return;
  std::optional<int> culprit, speaker;
  std::int64_t fewest = 0;
  std::vector<std::optional<std::string>> places;
  for (int rank = 0; rank < n; ++rank) {
    const std::optional<std::string> moves = rendezvous_.said(moves_key(rank));
    if (moves && !speaker) speaker = rank;
    const std::int64_t count = moves ? std::stoll(*moves) : -1;
    if (!culprit || count < fewest) {
      culprit = rank;
      fewest = count;
    }
    places.push_back(moves ? rendezvous_.said(place_key(rank)) : std::nullopt);
  }
  rendezvous_.record_lost_rank(*culprit);
  if (speaker != own) return on_stall_(std::nullopt);
  on_stall_(stall_text(timeout_, *culprit, *speaker, places));
}

}  // namespace xt
