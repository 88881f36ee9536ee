#include "executor/communicators/peer_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace xt {
namespace {

constexpr std::chrono::milliseconds poll_interval(100);

/// What a group said, kept while it is not locked.
struct Complaint {
  std::string what;
  std::vector<int> ranks;
  std::string reason;
};

std::optional<Complaint> complaint_of(std::span<WatchedGroup* const> groups) {
  for (WatchedGroup* group : groups)
    if (std::optional<std::string> reason = group->error())
      return Complaint{
          group->what(), {group->ranks().begin(), group->ranks().end()}, *std::move(reason)};
  return std::nullopt;
}

}  // namespace

PeerWatch::PeerWatch(Rendezvous& rendezvous)
    : rendezvous_(rendezvous), thread_([this] { watch(); }) {}

PeerWatch::~PeerWatch() {
  {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void PeerWatch::add(WatchedGroup& group) {
  const std::scoped_lock lock(groups_mutex_);
  groups_.push_back(&group);
}

void PeerWatch::remove(WatchedGroup& group) {
  const std::scoped_lock lock(groups_mutex_);
  std::erase(groups_, &group);
}

void PeerWatch::check() const {
  const std::scoped_lock lock(mutex_);
  if (lost_) throw PeerLost(*lost_);
}

bool PeerWatch::pause() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, poll_interval, [this] { return has_ended_; });
}

// Whoever an abort wakes finds the loss noted already.
void PeerWatch::watch() {
  while (pause()) {
    std::optional<PeerLost> found = find();
    if (!found) continue;
    {
      const std::scoped_lock lock(mutex_);
      lost_ = std::move(found);
    }
    return abort_all();
  }
}

std::optional<PeerLost> PeerWatch::find() {
  std::optional<Complaint> complaint;
  {
    const std::scoped_lock lock(groups_mutex_);
    complaint = complaint_of(groups_);
  }
  if (complaint)
    return PeerLost(complaint->what, rendezvous_.find_lost_rank(complaint->ranks),
                    complaint->reason);
  try {
    const std::optional<int> lost = rendezvous_.lost_rank();
    if (!lost || *lost == rendezvous_.place().rank) return std::nullopt;
    return PeerLost("a step", lost, "its launcher or another rank says so");
  } catch (const std::exception&) {
    // The store is gone, and with it whoever served it.
    return PeerLost("a step", rendezvous_.find_lost_rank({}), "the store does not answer");
  }
}

void PeerWatch::abort_all() {
  const std::scoped_lock lock(groups_mutex_);
  for (WatchedGroup* group : groups_) {
    try {
      group->abort();
    } catch (const std::exception&) {
      continue;  // who waits for it is ended by the launcher, which has named the lost rank
    }
  }
}

}  // namespace xt
