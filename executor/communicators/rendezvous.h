#pragma once

// Where the ranks of a run meet: a key-value store on the network. Beside making groups possible it
// answers one question, who was lost when a collective failed.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "executor/communicators/rank_environment.h"

namespace xt {

/// The key under which a launcher or a rank records the rank that failed first, without prefix.
inline constexpr std::string_view lost_rank_key = "xt_lost_rank";

/// A store served by this process on a free port, for the ranks that it launches.
class StoreServer {
 public:
  /// Throws: std::exception if no port can be had
  StoreServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// Tells all ranks that `rank` is gone; the first record stands.
  void record_lost_rank(int rank);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::uint16_t port_ = 0;
};

/// Ranks whose connections were seen to be closed by now.
using ClosedRanks = std::function<std::vector<int>()>;

/// One rank's connection to the store. Used by the one thread that issues collectives, but for what
/// says otherwise.
class Rendezvous {
 public:
  /// Connects, serving the store itself if it is this rank's part.
  ///
  /// Throws: std::exception if the store does not answer within `timeout`
  explicit Rendezvous(const RankEnvironment& place,
                      std::chrono::seconds timeout = std::chrono::seconds(60));
  /// A rank that serves the store stays until the others have left it, or a few seconds.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  [[nodiscard]] const RankEnvironment& place() const { return place_; }

  /// The part of the store that belongs to `name`.
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> store_of(std::string_view name) const;

  /// The rank that was recorded as lost, if one was; from any thread.
  ///
  /// Throws: std::exception if the store does not answer
  [[nodiscard]] std::optional<int> lost_rank() const;

  /// Which of `candidates` is gone, after a collective among them failed. Waits for whoever knows:
  /// the launcher, an earlier finder, or connections: of those that are `closed` one that neither
  /// came here itself nor answers is gone. (A failure may close connections with ranks that live.)
  /// After a few seconds it is one of the candidates that did not come: one that does not answer
  /// either, or else one that may wait elsewhere. None if all of them came. From any thread.
  std::optional<int> find_lost_rank(
      std::span<const int> candidates,
      const ClosedRanks& closed = [] { return std::vector<int>(); });

  /// Leaves `text` under `key` for the other ranks; from any thread.
  void say(const std::string& key, const std::string& text);
  /// What is under `key`, if anything is; from any thread.
  [[nodiscard]] std::optional<std::string> said(const std::string& key) const;
  /// Tells the others and the launcher that `rank` is lost; the first record stands.
  void record_lost_rank(int rank);

  /// Tells the others that this rank fails by itself, so that they name it.
  void announce_failure();

 private:
  [[nodiscard]] std::optional<int> first_missing(std::span<const int> candidates);
  [[nodiscard]] std::optional<int> first_silent(std::span<const int> closed);
  void answer_when_asked(const std::stop_token& stop);
  void wait_for_hearers(std::optional<int> lost);
  bool serves() const { return !place_.launcher_hosts_store && place_.rank == 0; }

  RankEnvironment place_;
  c10::intrusive_ptr<c10d::Store> network_store_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::jthread answering_;  ///< says that this rank is there, whatever its others wait for
};

}  // namespace xt
