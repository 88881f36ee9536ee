// Groups that exist for these tests alone: whatever waits in one waits until it is aborted, as a
// stream does in which a collective of NCCL runs.

#include "executor/communicators/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace xt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A group of two ranks of which the other never comes.
class EndlessGroup final : public WatchedGroup {
 public:
  [[nodiscard]] std::string what() const override { return "collectives of group dp"; }
  [[nodiscard]] std::span<const int> ranks() const override { return ranks_; }
  [[nodiscard]] std::optional<std::string> error() override {
    const std::scoped_lock lock(mutex_);
    ++n_asked_;
    changed_.notify_all();
    return error_;
  }
  void abort() override {
    const std::scoped_lock lock(mutex_);
    is_aborted_ = true;
    changed_.notify_all();
    if (!can_abort_) throw std::runtime_error("the device does not answer");
  }

  void report(const std::string& error) {
    const std::scoped_lock lock(mutex_);
    error_ = error;
  }
  void refuse_to_abort() { can_abort_ = false; }
  /// Returns when the watch has asked `n` times more.
  void wait_asked(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, most = n_asked_ + n] { return n_asked_ >= most; });
  }
  /// Returns when the group has been aborted.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_aborted_; });
  }

 private:
  std::vector<int> ranks_{0, 1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> error_;
  int n_asked_ = 0;
  bool is_aborted_ = false;
  bool can_abort_ = true;
};

RankEnvironment place_of(int rank, const StoreServer& server) {
  RankEnvironment place;
  place.rank = rank;
  place.world_size = 2;
  place.store_port = server.port();
  place.launcher_hosts_store = true;
  return place;
}

/// The watch of rank 0 of two.
class PeerWatches : public testing::Test {
 protected:
  void expect_lost(const std::string& what, const std::string& reason) {
    EXPECT_THAT([&] { watch_.check(); },
                ThrowsMessage<PeerLost>(
                    AllOf(HasSubstr("rank 1 was lost during " + what), HasSubstr(reason))));
  }

  StoreServer server_;
  Rendezvous rendezvous_{place_of(0, server_)};
  EndlessGroup first_, second_;
  PeerWatch watch_{rendezvous_};
};

TEST_F(PeerWatches, WakeWhoWaitsWhenALauncherHasRecordedALostRank) {
  watch_.add(first_);
  watch_.add(second_);
  EXPECT_NO_THROW(watch_.check());
  server_.record_lost_rank(1);
  first_.wait();
  expect_lost("a step", "its launcher or another rank says so");
  second_.wait();
  expect_lost("a step", "says so");
}

TEST_F(PeerWatches, AbortAllGroupsWhenOneReportsAnErrorAndNameWhoDidNotNotice) {
  watch_.add(first_);
  watch_.add(second_);
  second_.report("no answer in 300 s");
  first_.wait();
  expect_lost("collectives of group dp", "no answer in 300 s");
  second_.wait();
  EXPECT_EQ(rendezvous_.lost_rank(), 1) << "the other ranks hear of it";
}

TEST_F(PeerWatches, AbortTheOthersWhereOneGroupDoesNotEnd) {
  first_.refuse_to_abort();
  watch_.add(first_);
  watch_.add(second_);
  server_.record_lost_rank(1);
  second_.wait();
  EXPECT_THROW(watch_.check(), PeerLost);
}

TEST_F(PeerWatches, LeaveAGroupThatWasRemoved) {
  watch_.add(first_);
  watch_.add(second_);
  watch_.remove(first_);
  first_.report("it is gone");
  server_.record_lost_rank(1);
  second_.wait();
  expect_lost("a step", "says so");
}

TEST_F(PeerWatches, DoNotTakeThisRanksOwnFailureForALostPeer) {
  watch_.add(first_);
  rendezvous_.announce_failure();
  first_.wait_asked(2);
  EXPECT_NO_THROW(watch_.check());
  first_.report("its peers have left");
  first_.wait();
  EXPECT_THAT([&] { watch_.check(); },
              ThrowsMessage<PeerLost>(HasSubstr("collectives of group dp (its peers have left)")));
}

TEST(PeerWatch, NamesTheServerOfTheStoreWhereThatIsGone) {
  auto server = std::make_unique<StoreServer>();
  RankEnvironment place = place_of(1, *server);
  place.launcher_hosts_store = false;
  Rendezvous rendezvous(place);
  EndlessGroup group;
  PeerWatch watch(rendezvous);
  watch.add(group);
  server.reset();
  group.wait();
  EXPECT_THAT(
      [&] { watch.check(); },
      ThrowsMessage<PeerLost>(HasSubstr("rank 0 was lost during a step (the store does not")));
}

}  // namespace
}  // namespace xt
