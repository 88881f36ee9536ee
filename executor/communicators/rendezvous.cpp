#include "executor/communicators/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace xt {
namespace {

using std::chrono::steady_clock;

/// How long the ranks that notice a loss wait for each other's word. Twice this and the launcher's
/// patience stay below 15 s, the time in which a run must be over.
constexpr std::chrono::seconds patience(4);
constexpr std::chrono::milliseconds poll_interval(20);
constexpr std::chrono::milliseconds answer_interval(200);

c10::intrusive_ptr<c10d::TCPStore> connect(const std::string& host, c10d::TCPStoreOptions options) {
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const c10::Error& error) {
    // A LibTorch built without libuv refuses at once and has the older server.
    if (std::string_view(error.what()).find("libuv") == std::string_view::npos) throw;
    options.useLibUV = false;
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  }
}

std::string left_key(int rank) { return fmt::format("left/{}", rank); }
std::string heard_key(int rank) { return fmt::format("heard/{}", rank); }
std::string noticed_key(int rank) { return fmt::format("noticed/{}", rank); }
std::string alive_key(int rank) { return fmt::format("alive/{}", rank); }
constexpr const char* who_is_alive_key = "who_is_alive";

/// Launchers send SIGTERM to all ranks when one has died, which may be before the others have
/// noticed: they have so long for it, and end then as the signal would have ended them.
void end_later(int /*signal*/) {
  constexpr unsigned seconds_to_notice = 2;
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGALRM, [](int) { _exit(128 + SIGTERM); });
  alarm(seconds_to_notice);
}

/// Whoever has noticed ends by itself.
void end_by_itself() {
  std::signal(SIGTERM, SIG_IGN);
  alarm(0);
}

void record_if_first(c10d::Store& store, int rank) {
  store.compareSet(std::string(lost_rank_key), "", std::to_string(rank));
}

}  // namespace

StoreServer::StoreServer() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = connect("127.0.0.1", options);
  port_ = store->getPort();
  store_ = store;
}

void StoreServer::record_lost_rank(int rank) { record_if_first(*store_, rank); }

Rendezvous::Rendezvous(const RankEnvironment& place, std::chrono::seconds timeout) : place_(place) {
  c10d::TCPStoreOptions options;
  options.port = place.store_port;
  options.isServer = serves();
  options.waitWorkers = false;
  options.multiTenant = place.store_port != 0;
  options.timeout = timeout;
  network_store_ = connect(place.store_host, options);
  store_ = c10::make_intrusive<c10d::PrefixStore>(place.key_prefix, network_store_);
  if (place.world_size == 1) return;
  std::signal(SIGTERM, end_later);
  answering_ = std::jthread([this](const std::stop_token& stop) { answer_when_asked(stop); });
}

Rendezvous::~Rendezvous() {
  answering_ = {};
  try {
    store_->set(left_key(place_.rank), "1");
    if (!serves()) return;
    std::vector<std::string> others;
    for (int rank = 0; rank < place_.world_size; ++rank)
      if (rank != lost_rank()) others.push_back(left_key(rank));
    store_->wait(others, 2 * patience);
  } catch (const std::exception&) {
    // The store or a rank is gone already; there is nobody left to wait for.
  }
}

c10::intrusive_ptr<c10d::Store> Rendezvous::store_of(std::string_view name) const {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}/", name), store_);
}

std::optional<int> Rendezvous::lost_rank() const {
  const std::string key(lost_rank_key);
  if (!network_store_->check({key})) return std::nullopt;
  return std::stoi(network_store_->get_to_str(key));
}

// A rank that waits for one that came here cannot come itself, but it answers.
std::optional<int> Rendezvous::first_missing(std::span<const int> candidates) {
  std::optional<int> absent;
  for (const int rank : candidates) {
    if (store_->check({noticed_key(rank)})) continue;
    if (!store_->check({alive_key(rank)})) return rank;
    if (!absent) absent = rank;
  }
  return absent;
}

void Rendezvous::answer_when_asked(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  try {
    while (!stopped.wait_for(lock, stop, answer_interval, [&] { return stop.stop_requested(); })) {
      if (!store_->check({who_is_alive_key})) continue;
      return store_->set(alive_key(place_.rank), "1");
    }
  } catch (const std::exception&) {
    // The store is gone, and whoever would ask through it.
  }
}

std::optional<int> Rendezvous::first_silent(std::span<const int> closed) {
  const auto gone = std::ranges::find_if(closed, [this](int rank) {
    return !store_->check({noticed_key(rank)}) && !store_->check({alive_key(rank)});
  });
  return gone == closed.end() ? std::nullopt : std::optional(*gone);
}

std::optional<int> Rendezvous::find_lost_rank(std::span<const int> candidates,
                                              const ClosedRanks& closed) {
  end_by_itself();
  try {
    store_->set(noticed_key(place_.rank), "1");
    store_->set(who_is_alive_key, "1");
    const auto asked = steady_clock::now();
    std::optional<int> lost = lost_rank(), missing;
    while (!lost && !missing && steady_clock::now() < asked + patience) {
      std::this_thread::sleep_for(poll_interval);
      if (steady_clock::now() >= asked + 2 * answer_interval) missing = first_silent(closed());
      lost = lost_rank();
    }
    if (!missing && !lost) missing = first_missing(candidates);
    if (missing && !lost) record_if_first(*network_store_, *missing);
    lost = lost_rank();
    store_->set(heard_key(place_.rank), "1");
    if (serves()) wait_for_hearers(lost);
    return lost;
  } catch (const std::exception&) {
    // The store itself is gone, and with it whoever served it.
    if (place_.launcher_hosts_store) return std::nullopt;
    return 0;
  }
}

// The store goes with its server: who asks later would take the server for the one that was lost.
void Rendezvous::wait_for_hearers(std::optional<int> lost) {
  std::vector<std::string> others;
  for (int rank = 0; rank < place_.world_size; ++rank)
    if (rank != lost) others.push_back(heard_key(rank));
  const auto deadline = steady_clock::now() + patience;
  while (!store_->check(others) && steady_clock::now() < deadline)
    std::this_thread::sleep_for(poll_interval);
}

void Rendezvous::say(const std::string& key, const std::string& text) { store_->set(key, text); }

std::optional<std::string> Rendezvous::said(const std::string& key) const {
  if (!store_->check({key})) return std::nullopt;
  return store_->get_to_str(key);
}

void Rendezvous::record_lost_rank(int rank) { record_if_first(*network_store_, rank); }

void Rendezvous::announce_failure() {
  try {
    record_if_first(*network_store_, place_.rank);
  } catch (const std::exception&) {
    // Without a store nobody can be told; the others will notice the closed connections.
  }
}

}  // namespace xt
