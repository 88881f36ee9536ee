#include "executor/communicators/rank_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "costmodel/diagnostics/diagnostic.h"

namespace xt {
namespace {

Variables variables(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string problem(const Variables& of) {
  try {
    rank_environment(of);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(RankEnvironment, IsARunOfOneWithoutALauncher) {
  const RankEnvironment place = rank_environment(variables({}));
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.store_port, 0) << "two runs of one rank on a host do not meet";
}

TEST(RankEnvironment, ReadsTorchrun) {
  const RankEnvironment place =
      rank_environment(variables({{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "4"},
                                  {"MASTER_ADDR", "node0"},
                                  {"MASTER_PORT", "1234"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"SLURM_PROCID", "0"}}));
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.world_size, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world_size, 4);
  EXPECT_EQ(place.store_host, "node0");
  EXPECT_EQ(place.store_port, 1234);
  EXPECT_TRUE(place.launcher_hosts_store);
  EXPECT_EQ(place.key_prefix, "xt/2/");
}

TEST(RankEnvironment, ReadsSlurmSteps) {
  const RankEnvironment place = rank_environment(variables({{"SLURM_PROCID", "3"},
                                                            {"SLURM_STEP_NUM_TASKS", "4"},
                                                            {"SLURM_LOCALID", "1"},
                                                            {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                            {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                                                            {"SLURM_JOB_ID", "1234567"}}));
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.local_world_size, 2);
  EXPECT_EQ(place.store_host, "gpu07");
  EXPECT_EQ(place.store_port, 20000 + 1234567 % 12000);
  EXPECT_FALSE(place.launcher_hosts_store);
}

TEST(RankEnvironment, AnAllocationWithoutAStepIsARunOfOne) {
  EXPECT_EQ(rank_environment(variables({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})).world_size,
            1);
}

TEST(RankEnvironment, ReadsOpenMpi) {
  const RankEnvironment place = rank_environment(variables({{"OMPI_COMM_WORLD_RANK", "1"},
                                                            {"OMPI_COMM_WORLD_SIZE", "2"},
                                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 2);
}

TEST(RankEnvironment, SaysWhatIsWrongWithTheVariables) {
  EXPECT_NE(problem(variables({{"RANK", "0"}})).find("WORLD_SIZE is not set"), std::string::npos);
  EXPECT_NE(problem(variables({{"RANK", "x"}, {"WORLD_SIZE", "2"}})).find("RANK is `x`"),
            std::string::npos);
  EXPECT_NE(problem(variables({{"RANK", "2"}, {"WORLD_SIZE", "2"}})).find("rank 2 of 2 ranks"),
            std::string::npos);
  EXPECT_NE(problem(variables({{"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "4"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}))
                .find("MASTER_ADDR is not set"),
            std::string::npos);
}

TEST(FirstHost, ExpandsSlurmRanges) {
  EXPECT_EQ(first_host("n03"), "n03");
  EXPECT_EQ(first_host("n03,n04"), "n03");
  EXPECT_EQ(first_host("n[03-07,11],m2"), "n03");
  EXPECT_EQ(first_host("a,n[1-2]"), "a");
  EXPECT_EQ(first_host("n[5]"), "n5");
}

TEST(Loopback, IsThisMachineOnly) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("localhost"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
}

}  // namespace
}  // namespace xt
