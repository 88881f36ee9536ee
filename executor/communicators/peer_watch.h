#pragma once

// Finds lost ranks where collectives run on a device and nobody waits for them on the host: a
// device whose peer is gone would wait for ever. Knows no device and no library.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "executor/communicators/communicator.h"
#include "executor/communicators/rendezvous.h"

namespace xt {

/// A group that is watched. All functions are called by a thread of the watch.
class WatchedGroup {
 public:
  WatchedGroup() = default;
  virtual ~WatchedGroup() = default;
  WatchedGroup(const WatchedGroup&) = delete;
  WatchedGroup& operator=(const WatchedGroup&) = delete;

  /// Which collectives they are, in words.
  [[nodiscard]] virtual std::string what() const = 0;
  /// Its ranks in the world.
  [[nodiscard]] virtual std::span<const int> ranks() const = 0;
  /// What its library says is wrong: an error that came later than the call, or no answer in time.
  [[nodiscard]] virtual std::optional<std::string> error() = 0;
  /// Ends what runs in it, so that whoever waits for it goes on; its results are lost.
  ///
  /// Throws: std::exception if it does not end
  virtual void abort() = 0;
};

/// A thread that looks whether a group reports an error, or whether a launcher or another rank has
/// recorded a lost rank. Where one is lost it aborts all groups, and check() throws from then on:
/// whoever has waited on the device calls it before the result is believed.
class PeerWatch {
 public:
  /// Assumes: `rendezvous` outlives the watch
  explicit PeerWatch(Rendezvous& rendezvous);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Watches `group` until it is removed.
  void add(WatchedGroup& group);
  /// Returns when the watch no longer uses `group`.
  void remove(WatchedGroup& group);

  /// Throws: PeerLost when a rank has been lost
  void check() const;

 private:
  void watch();
  /// Sleeps; false when the watch ends.
  bool pause();
  [[nodiscard]] std::optional<PeerLost> find();
  void abort_all();

  Rendezvous& rendezvous_;
  std::mutex groups_mutex_;
  std::vector<WatchedGroup*> groups_;
  mutable std::mutex mutex_;  ///< of what follows
  std::optional<PeerLost> lost_;
  bool has_ended_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace xt
