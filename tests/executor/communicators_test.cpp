#include "executor/communicators/communicator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>

#include "executor/communicators/single_rank.h"
#include "executor/communicators/sum_ranks.h"
#include "executor/runtime/allocator.h"
#include "tests/executor/ranks.h"

namespace xt {
namespace {

std::vector<int> everybody(int n_ranks) {
  std::vector<int> ranks(static_cast<std::size_t>(n_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Communicator> world_of(GlooNetwork& network, const Rendezvous& rendezvous) {
  return network.group("world", everybody(rendezvous.place().world_size));
}

/// What rank `rank` holds: random, and known to all ranks.
at::Tensor of_rank(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank) + 7);
  return at::randn(shape, generator, at::kFloat).mul_(100).to(dtype);
}

bool same(const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); }

constexpr std::array moved_types = {at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt};

void all_gather(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  for (const at::ScalarType dtype : moved_types) {
    const at::Tensor shard = of_rank(world->rank(), {1001}, dtype);
    const at::Tensor full = at::empty({1001 * world->size()}, shard.options());
    world->all_gather(full, shard)->wait();
    for (int rank = 0; rank < world->size(); ++rank)
      require(same(full.narrow(0, rank * 1001, 1001), of_rank(rank, {1001}, dtype)),
              "the gathered parts are the shards in rank order");
  }
}

void all_gather_in_place(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const at::Tensor full = at::zeros({1 << 20}, at::kFloat);
  const std::int64_t n = full.numel() / world->size();
  const at::Tensor own = full.narrow(0, world->rank() * n, n);
  own.copy_(of_rank(world->rank(), {n}, at::kFloat));
  const MemoryUsage before = memory_usage();
  world->all_gather(full, own)->wait();
  require(memory_usage().n_allocations == before.n_allocations, "all-gather takes no memory");
  for (int rank = 0; rank < world->size(); ++rank)
    require(same(full.narrow(0, rank * n, n), of_rank(rank, {n}, at::kFloat)),
            "a shard may lie in the gathered buffer");
}

void reduce_scatter(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const std::int64_t n = 100'003;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor full = of_rank(world->rank(), {n * world->size()}, dtype);
    const at::Tensor scratch = at::empty_like(full);
    const at::Tensor shard = at::empty({n}, at::kFloat);
    at::Tensor expected = at::zeros({n}, at::kFloat);
    for (int rank = 0; rank < world->size(); ++rank) {
      const at::Tensor part = of_rank(rank, {n * world->size()}, dtype);
      expected.add_(part.narrow(0, world->rank() * n, n).to(at::kFloat));
    }
    const MemoryUsage before = memory_usage();
    world->reduce_scatter(shard, full, scratch)->wait();
    require(memory_usage().n_allocations == before.n_allocations, "reduce-scatter takes no memory");
    require(same(shard, expected), "the sum has the bits of adding in rank order");
    shard.zero_();
    world->reduce_scatter(shard, full, scratch)->wait();
    require(same(shard, expected), "the sum has the same bits again");
  }
}

void all_to_all_even(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  for (const at::ScalarType dtype : moved_types) {
    const at::Tensor sent = of_rank(world->rank(), {world->size(), 33}, dtype);
    const at::Tensor received = at::empty_like(sent);
    world->all_to_all(received, sent)->wait();
    for (int rank = 0; rank < world->size(); ++rank)
      require(same(received[rank], of_rank(rank, {world->size(), 33}, dtype)[world->rank()]),
              "part i comes from rank i");
  }
}

/// Rows that rank `from` sends to rank `to`; some send nothing.
std::int64_t rows_between(int from, int to) { return (from * 3 + to * 5) % 4; }

std::vector<std::int64_t> rows_sent(int from, int n_ranks) {
  std::vector<std::int64_t> rows;
  for (int to = 0; to < n_ranks; ++to) rows.push_back(rows_between(from, to));
  return rows;
}

void all_to_all_uneven(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const int own = world->rank();
  for (const at::ScalarType dtype : moved_types) {
    const auto sent_rows = rows_sent(own, world->size());
    std::vector<std::int64_t> received_rows;
    std::vector<at::Tensor> expected;
    for (int from = 0; from < world->size(); ++from) {
      received_rows.push_back(rows_between(from, own));
      const auto rows = rows_sent(from, world->size());
      const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + own, std::int64_t{0});
      const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
      expected.push_back(of_rank(from, {total, 16}, dtype).narrow(0, begin, received_rows.back()));
    }
    const std::int64_t n_sent = std::accumulate(sent_rows.begin(), sent_rows.end(), 0L);
    const at::Tensor sent = of_rank(own, {n_sent, 16}, dtype);
    const at::Tensor wanted = at::cat(expected);
    const at::Tensor received = at::empty_like(wanted);
    world->all_to_all(received, sent, received_rows, sent_rows)->wait();
    require(same(received, wanted), "rows arrive in rank order with their splits");
  }
}

void all_reduce_and_broadcast(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const at::Tensor x = at::full({5}, 1 << world->rank(), at::kFloat);
  world->all_reduce(x)->wait();
  require(same(x, at::full({5}, (1 << world->size()) - 1, at::kFloat)), "every rank is in the sum");
  const at::Tensor y = at::full({3}, world->rank(), at::kLong);
  world->broadcast(y, world->size() - 1)->wait();
  require(same(y, at::full({3}, world->size() - 1, at::kLong)), "y is that of the root");
  world->barrier()->wait();
}

void many_at_once(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const auto other = network.group("other", everybody(world->size()));
  std::vector<at::Tensor> gathered;
  std::vector<PendingCollective> pending;
  const at::Tensor shard = of_rank(world->rank(), {4096}, at::kFloat);
  for (int i = 0; i < 16; ++i) {
    gathered.push_back(at::empty({4096 * world->size()}, at::kFloat));
    pending.push_back((i % 2 ? *world : *other).all_gather(gathered.back(), shard));
  }
  for (auto one = pending.rbegin(); one != pending.rend(); ++one) (*one)->wait();
  for (std::size_t i = 0; i < 16; ++i) {
    require(pending[i]->completed().time_since_epoch().count() > 0, "completion has a time");
    require(same(gathered[i], gathered.front()), "all gathered the same");
  }
}

void groups_of_a_mesh(Rendezvous& rendezvous, GlooNetwork& network) {
  const int own = rendezvous.place().rank;
  const auto inner = network.group("inner", group_members(own, 2, 1));
  const auto outer = network.group("outer", group_members(own, 2, 2));
  const auto alone = network.group("alone", group_members(own, 1, 1));
  const at::Tensor x = at::full({1}, 1 << own, at::kInt);
  inner->all_reduce(x)->wait();
  require(x.item<int>() == (own < 2 ? 3 : 12), "the inner group has neighbours");
  outer->all_reduce(x)->wait();
  require(x.item<int>() == 15, "the outer group crosses the inner ones");
  alone->all_reduce(x)->wait();
  require(x.item<int>() == 15 && alone->size() == 1, "a group of one changes nothing");
}

void rank_one_dies(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const at::Tensor x = at::ones({1 << 16}, at::kFloat);
  world->all_reduce(x)->wait();
  if (world->rank() == 1) std::raise(SIGKILL);
  try {
    for (int i = 0; i < 100; ++i) world->all_reduce(x)->wait();
  } catch (const PeerLost& error) {
    require(error.lost_rank() == 1, "the lost rank is known");
    require(error.op() == "all_reduce of group world", "the op is named");
    throw;
  }
}

// `absent` is alive and takes part in nothing until rank 1 has heard, for which it waits so many
// times 20 ms. A group that lost a rank may have threads that never end, so that nobody destroys
// it.
void one_dies_and_one_stays_away(Rendezvous& rendezvous, GlooNetwork& network, int dead, int absent,
                                 int patience) {
  static Communicator* const world = world_of(network, rendezvous).release();
  const at::Tensor own = at::ones({1 << 16}, at::kFloat), all = at::empty({3 << 16}, at::kFloat);
  world->all_gather(all, own)->wait();
  if (world->rank() == dead) std::raise(SIGKILL);
  const bool waits = world->rank() == absent;
  for (int i = 0; waits && i < patience && !rendezvous.said("heard"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (waits) require(rendezvous.said("heard").has_value(), "a loss is heard of alone");
  try {
    world->all_gather(all, own)->wait();
  } catch (const PeerLost& error) {
    require(error.lost_rank() == dead, "the lost rank is known");
    rendezvous.say("heard", "1");
    throw;
  }
}

void rank_zero_dies_and_rank_two_stays_away(Rendezvous& rendezvous, GlooNetwork& network) {
  one_dies_and_one_stays_away(rendezvous, network, 0, 2, 250);
}

// Nobody but rank 1 finds out who was lost, which takes it seconds.
void rank_two_dies_and_rank_zero_stays_away(Rendezvous& rendezvous, GlooNetwork& network) {
  one_dies_and_one_stays_away(rendezvous, network, 2, 0, 500);
}

void rank_two_fails(Rendezvous& rendezvous, GlooNetwork& network) {
  const auto world = world_of(network, rendezvous);
  const at::Tensor x = at::ones({8}, at::kFloat);
  world->all_reduce(x)->wait();
  if (world->rank() == 2) throw std::runtime_error("the disk is full");
  for (int i = 0; i < 100; ++i) world->all_reduce(x)->wait();
}

const std::map<std::string, Scenario> scenarios = {
    {"all_gather", all_gather},
    {"all_gather_in_place", all_gather_in_place},
    {"reduce_scatter", reduce_scatter},
    {"all_to_all_even", all_to_all_even},
    {"all_to_all_uneven", all_to_all_uneven},
    {"all_reduce_and_broadcast", all_reduce_and_broadcast},
    {"many_at_once", many_at_once},
    {"groups_of_a_mesh", groups_of_a_mesh},
    {"rank_one_dies", rank_one_dies},
    {"rank_two_fails", rank_two_fails},
    {"rank_zero_dies_and_rank_two_stays_away", rank_zero_dies_and_rank_two_stays_away},
    {"rank_two_dies_and_rank_zero_stays_away", rank_two_dies_and_rank_zero_stays_away},
};

/// A port that was free a moment ago.
int free_port() {
  const int socket_id = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  bind(socket_id, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(socket_id, reinterpret_cast<sockaddr*>(&address), &length);
  close(socket_id);
  return ntohs(address.sin_port);
}

class OnRanks : public testing::TestWithParam<int> {};

TEST_P(OnRanks, AllGatherGivesTheShardsInRankOrder) {
  EXPECT_EQ(run_ranks("all_gather", GetParam()), 0);
}
TEST_P(OnRanks, AllGatherInPlaceTakesNoMemory) {
  EXPECT_EQ(run_ranks("all_gather_in_place", GetParam()), 0);
}
TEST_P(OnRanks, ReduceScatterIsBitwiseRepeatable) {
  EXPECT_EQ(run_ranks("reduce_scatter", GetParam()), 0);
}
TEST_P(OnRanks, AllToAllMovesEqualParts) { EXPECT_EQ(run_ranks("all_to_all_even", GetParam()), 0); }
TEST_P(OnRanks, AllToAllMovesUnequalPartsAndEmptyOnes) {
  EXPECT_EQ(run_ranks("all_to_all_uneven", GetParam()), 0);
}
TEST_P(OnRanks, AllReduceSumsAndBroadcastCopies) {
  EXPECT_EQ(run_ranks("all_reduce_and_broadcast", GetParam()), 0);
}
TEST_P(OnRanks, CollectivesOfTwoGroupsMayBeWaitedForInAnyOrder) {
  EXPECT_EQ(run_ranks("many_at_once", GetParam()), 0);
}
INSTANTIATE_TEST_SUITE_P(Communicators, OnRanks, testing::Values(1, 2, 4));

// Each has a store of its own, on a port that nobody else needs.
TEST(Rendezvous, OfRunsOfOneRankOnOneHostIsNotTheSame) {
  Rendezvous one({}), other({});
  one.say("key", "text");
  EXPECT_EQ(one.said("key"), "text");
  EXPECT_FALSE(other.said("key"));
}

TEST(Groups, OfAMeshCrossEachOther) { EXPECT_EQ(run_ranks("groups_of_a_mesh", 4), 0); }

TEST(Groups, MembersAreStrideApart) {
  EXPECT_EQ(group_members(5, 2, 1), (std::vector<int>{4, 5}));
  EXPECT_EQ(group_members(5, 4, 2), (std::vector<int>{1, 3, 5, 7}));
}

TEST(Launcher, NamesARankThatWasKilledAndTheOthersNameItToo) {
  testing::internal::CaptureStderr();
  const int code = run_ranks("rank_one_dies", 3);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3) << text;
  EXPECT_NE(text.find("error: rank 1 was killed by signal 9"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0: rank 1 was lost during all_reduce"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2: rank 1 was lost during all_reduce"), std::string::npos) << text;
}

// What one rank waits for must not depend on ranks that wait for it in their turn.
TEST(Launcher, ALossEndsAWaitForRanksThatDoNotCome) {
  testing::internal::CaptureStderr();
  const int code = run_ranks("rank_zero_dies_and_rank_two_stays_away", 3);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3) << text;
  EXPECT_NE(text.find("rank 1: rank 0 was lost during all_gather"), std::string::npos) << text;
  EXPECT_NE(text.find("note: rank 1 failed with exit code 3, rank 2 failed with exit code 3"),
            std::string::npos)
      << text;
}

TEST(Launcher, NamesTheRankThatFailedFirst) {
  testing::internal::CaptureStderr();
  const int code = run_ranks("rank_two_fails", 3);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3) << text;
  EXPECT_NE(text.find("rank 0: rank 2 was lost"), std::string::npos) << text;
  EXPECT_NE(text.find("error: rank 2 failed with exit code 4"), std::string::npos) << text;
}

// What three ranks of `scenario` say that start one by one, as without a launcher.
std::string said_without_a_launcher(const std::string& scenario) {
  testing::internal::CaptureStderr();
  const int code = run_ranks(
      scenario, 3,
      {{"TORCHELASTIC_USE_AGENT_STORE", "False"}, {"MASTER_PORT", std::to_string(free_port())}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3) << text;
  return text;
}

TEST(Rendezvous, WithoutALauncherRankZeroServesAndTheSurvivorsStillNameTheLostRank) {
  const std::string text = said_without_a_launcher("rank_one_dies");
  EXPECT_NE(text.find("rank 0: rank 1 was lost"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2: rank 1 was lost"), std::string::npos) << text;
}

TEST(Rendezvous, WithoutALauncherARankThatWaitsElsewhereIsNotTakenForTheLostOne) {
  const std::string text = said_without_a_launcher("rank_two_dies_and_rank_zero_stays_away");
  EXPECT_NE(text.find("rank 0: rank 2 was lost"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1: rank 2 was lost"), std::string::npos) << text;
}

TEST(SingleRank, CopiesAndConverts) {
  const auto alone = single_rank_communicator();
  const at::Tensor full = at::arange(8, at::kFloat).to(at::kBFloat16);
  const at::Tensor scratch = at::empty_like(full);
  const at::Tensor shard = at::empty({8}, at::kFloat);
  const auto pending = alone->reduce_scatter(shard, full, scratch);
  pending->wait();
  EXPECT_TRUE(same(shard, at::arange(8, at::kFloat)));
}

TEST(SumRanks, AddsInRankOrder) {
  // (1e8 + 1) - 1e8 is 0 in fp32, where 1e8 - 1e8 + 1 would be 1.
  const at::Tensor parts = at::tensor({1e8F, 1.0F, -1e8F});
  const at::Tensor sum = at::empty({1}, at::kFloat);
  sum_ranks(sum, parts);
  EXPECT_EQ(sum.item<float>(), 0.0F);
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) { return xt::ranks_main(argc, argv, xt::scenarios); }
