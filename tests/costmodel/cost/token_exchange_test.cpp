#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "costmodel/cost/demand.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"

namespace xt {
namespace {

constexpr std::int64_t row_width = 7168, all_tokens = 4096;

Profile machine(const char* name) {
  const auto folder = std::filesystem::path(XT_SOURCE_DIR) / "profiles";
  return read<Profile>(read_yaml(folder / (std::string(name) + ".yaml")));
}

// An exchange of one copy for each rank that has any of a token's experts.
Work copies_of(std::int64_t tokens, std::int64_t ranks, std::int64_t experts_each) {
  const double missed = std::pow(1 - 1.0 / static_cast<double>(ranks), experts_each);
  const auto copies = std::llround(static_cast<double>(tokens * ranks) * (1 - missed));
  Work work;
  work.kernel = Kernel::all_to_all;
  work.dtype = DType::bf16;
  work.extents = {copies, copies, row_width, tokens, experts_each};
  return work;
}

// The same copies, each sent straight to its rank.
Work straight(Work work) {
  work.extents[3] = work.extents[4] = 0;
  return work;
}

Demand over(const Work& work, std::int32_t ranks, const Profile& profile) {
  return demand(work, {}, {ranks, 1}, profile);
}

// Tokens times nodes that they go to, their own among them, as Hybrid-EP counts what it moves.
double moved_once_per_node(std::int32_t ranks, const Profile& profile) {
  const double n = ranks / 8.0;
  const double visited = n * (1 - std::pow(1 - 1 / n, 8));
  const double seconds = alone(over(copies_of(all_tokens, ranks, 8), ranks, profile)).value;
  return static_cast<double>(all_tokens * row_width * 2) * visited / seconds;
}

TEST(TokenExchange, ReachesWhatHybridEpPublishesForH100) {
  // GB/s of its kernels with 16 SMs, dispatch in bf16, within a fifth.
  const Profile h100 = machine("h100_sxm");
  EXPECT_NEAR(moved_once_per_node(16, h100), 71.71e9, 0.2 * 71.71e9);
  EXPECT_NEAR(moved_once_per_node(32, h100), 57.69e9, 0.2 * 57.69e9);
  EXPECT_NEAR(moved_once_per_node(64, h100), 49.97e9, 0.2 * 49.97e9);
}

TEST(TokenExchange, SendsATokenOfOneExpertAsAPlainExchangeDoes) {
  const Profile h100 = machine("h100_sxm");
  const Work work = copies_of(all_tokens, 16, 1);
  EXPECT_NEAR(over(work, 16, h100).on(Resource::scale_out).value,
              over(straight(work), 16, h100).on(Resource::scale_out).value, 1e-9);
}

TEST(TokenExchange, OverTwoNodesSendsNoTokenTwice) {
  // All experts' ranks in one exchange of every token with the other node.
  const Profile h100 = machine("h100_sxm");
  Work all = copies_of(all_tokens, 16, 60);
  Work half = straight(all);  // of 2·T rows T go to the other node
  half.extents[0] = half.extents[1] = 2 * all_tokens;
  EXPECT_NEAR(over(all, 16, h100).on(Resource::scale_out).value,
              over(half, 16, h100).on(Resource::scale_out).value, 1e-9);
}

TEST(TokenExchange, IsNeverSlowerThanCopiesSentStraight) {
  const Profile h100 = machine("h100_sxm");
  for (const std::int32_t ranks : {16, 32, 64, 128})
    for (const std::int64_t experts : {1, 2, 6, 8})
      EXPECT_LE(
          alone(over(copies_of(all_tokens, ranks, experts), ranks, h100)).value,
          1.001 * alone(over(straight(copies_of(all_tokens, ranks, experts)), ranks, h100)).value)
          << ranks << " ranks, " << experts << " experts";
}

TEST(TokenExchange, InsideANodeIsAPlainExchange) {
  const Profile h100 = machine("h100_sxm");
  const Work work = copies_of(all_tokens, 8, 8);
  EXPECT_EQ(over(work, 8, h100), over(straight(work), 8, h100));
}

TEST(TokenExchange, OfOneRankANodeUsesNoLinkInside) {
  const Work work = copies_of(all_tokens, 4, 8);
  const Demand spread = demand(work, {}, {4, 8}, machine("h100_sxm"));
  EXPECT_EQ(spread.on(Resource::scale_up), Seconds(0));
  EXPECT_GT(spread.on(Resource::scale_out), Seconds(0));
}

}  // namespace
}  // namespace xt
