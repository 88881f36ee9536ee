// The executor against Hugging Face transformers, under every layout.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/oracle.h"

namespace xt {

void PrintTo(const OracleCase& of, std::ostream* out) { *out << of.name(); }

namespace {

// model, ranks, expert parallel, accumulation, loss chunk, recompute, swap, resharding of layers
const std::vector<OracleCase> cases = {
    {"qwen3_tied", 1, 1, 4, 48, 0, 0},
    {"qwen3_tied", 1, 1, 1, 20, 2, 2},
    {"qwen3_tied", 2, 1, 2, 16, 1, 1},
    {"qwen3_tied", 4, 1, 1, 48, 2, 0},
    {"qwen3_untied", 1, 1, 4, 7, 2, 1},
    {"qwen3_untied", 2, 1, 2, 48, 0, 0},
    {"qwen3_untied", 4, 1, 4, 48, 0, 0},
    {"qwen3_moe", 1, 1, 4, 48, 0, 0},
    {"qwen3_moe", 1, 1, 1, 20, 2, 2},
    {"qwen3_moe", 2, 1, 2, 48, 2, 1},
    {"qwen3_moe", 2, 2, 2, 48, 0, 0},
    {"qwen3_moe", 2, 2, 2, 20, 2, 2},
    {"qwen3_moe", 2, 2, 1, 20, 2, 2},
    {"qwen3_moe", 4, 2, 1, 48, 0, 0},
    {"qwen3_moe", 4, 2, 4, 20, 2, 2},
    {"qwen3_moe", 4, 4, 1, 48, 2, 0},
    {"qwen3_moe", 4, 1, 1, 48, 1, 0},
    {"qwen3_moe", 4, 2, 4, 20, 2, 1, false},
    {"llama", 1, 1, 4, 48, 0, 0},
    {"llama", 2, 1, 2, 20, 1, 1},
    {"llama", 4, 1, 1, 48, 2, 2},
    {"qwen2", 1, 1, 4, 48, 0, 0},
    {"qwen2", 2, 1, 2, 20, 2, 1},
    {"qwen2", 4, 1, 1, 48, 1, 0},
    {"mixtral", 1, 1, 4, 48, 0, 0},
    {"mixtral", 2, 2, 2, 20, 2, 2},
    {"mixtral", 4, 2, 1, 48, 0, 0},
    {"mixtral", 4, 4, 1, 48, 1, 1},
    {"qwen3_moe_balanced", 1, 1, 4, 48, 0, 0},
    {"qwen3_moe_balanced", 2, 2, 2, 20, 2, 2},
    {"qwen3_moe_balanced", 4, 2, 1, 48, 1, 0},
    {.model = "qwen3_moe_balanced",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .recompute_layers = 2,
     .micro_batches = 2},
    {"gpt_oss", 1, 1, 4, 48, 0, 0},
    {"gpt_oss", 2, 2, 2, 20, 2, 2},
    {"gpt_oss", 4, 2, 1, 48, 1, 0},
    {"gpt_oss", 4, 1, 1, 48, 2, 1},
    {"deepseek_v3", 1, 1, 4, 48, 0, 0},
    {"deepseek_v3", 2, 2, 2, 20, 2, 2},
    {"deepseek_v3", 4, 2, 1, 48, 1, 0},
    {"deepseek_v3", 4, 1, 1, 48, 2, 1},
    {.model = "deepseek_v3",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .micro_batches = 2},
    {.model = "deepseek_v3", .ranks = 2, .gradient_accumulation = 2, .padding = 16},
    {.model = "qwen3_moe_balanced",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 2,
     .recompute_layers = 2,
     .padding = 16},
    {.model = "qwen3_moe_balanced",
     .gradient_accumulation = 2,
     .micro_batches = 2,
     .padding = 5,
     .is_as_on_gpus = true},
    {.model = "deepseek_v3", .gradient_accumulation = 4, .padding = 16, .is_as_on_gpus = true},
    {.model = "gpt_oss", .ranks = 4, .gradient_accumulation = 1, .shard_ranks = 2},
    {.model = "qwen2", .ranks = 2, .gradient_accumulation = 4, .sequence_parallel = 2},
    {.model = "mixtral",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .micro_batches = 2},
    {.model = "qwen3_moe", .ranks = 2, .gradient_accumulation = 4, .sequence_parallel = 2},
    {.model = "qwen3_untied",
     .ranks = 4,
     .gradient_accumulation = 2,
     .recompute_layers = 2,
     .sequence_parallel = 2},
    {.model = "qwen3_moe", .ranks = 4, .gradient_accumulation = 1, .shard_ranks = 2},
    {.model = "qwen3_untied",
     .ranks = 4,
     .gradient_accumulation = 1,
     .recompute_layers = 1,
     .swap_layers = 1,
     .shard_ranks = 2},
    {.model = "qwen3_moe", .ranks = 1, .gradient_accumulation = 2, .micro_batches = 2},
    {.model = "qwen3_moe",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .micro_batches = 2},
    {.model = "qwen3_moe",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .recompute_layers = 2,
     .swap_layers = 2,
     .micro_batches = 2},
    {.model = "qwen3_tied", .gradient_accumulation = 4, .is_as_on_gpus = true},
    {.model = "llama", .ranks = 2, .gradient_accumulation = 2, .is_as_on_gpus = true},
    {.model = "qwen2",
     .ranks = 2,
     .gradient_accumulation = 4,
     .sequence_parallel = 2,
     .is_as_on_gpus = true},
    {.model = "gpt_oss",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 2,
     .loss_chunk = 20,
     .recompute_layers = 2,
     .swap_layers = 2,
     .is_as_on_gpus = true},
    {.model = "deepseek_v3",
     .ranks = 2,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .micro_batches = 2,
     .is_as_on_gpus = true},
    {.model = "qwen3_moe_balanced",
     .ranks = 4,
     .expert_parallel = 2,
     .gradient_accumulation = 1,
     .recompute_layers = 1,
     .is_as_on_gpus = true},
};

class Oracle : public testing::TestWithParam<OracleCase> {};

TEST_P(Oracle, HasTheSameLossesGradientsAndTrainedWeights) {
  EXPECT_EQ(run_ranks(GetParam().name(), static_cast<int>(GetParam().ranks)), 0);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Oracle, testing::ValuesIn(cases),
                         [](const auto& of) { return of.param.name(); });

// Pairs that differ in recompute, swap or resharding alone.
const std::vector<std::pair<OracleCase, OracleCase>> twins = {
    {{"qwen3_untied", 1, 1, 1, 20, 0, 0}, {"qwen3_untied", 1, 1, 1, 20, 2, 0}},
    {{"qwen3_untied", 1, 1, 1, 20, 2, 0}, {"qwen3_untied", 1, 1, 1, 20, 2, 2}},
    {{"qwen3_moe", 2, 2, 2, 48, 0, 0}, {"qwen3_moe", 2, 2, 2, 48, 2, 0}},
    {{"qwen3_moe", 2, 2, 2, 48, 2, 0}, {"qwen3_moe", 2, 2, 2, 48, 2, 1}},
    {{"qwen3_moe", 2, 2, 2, 48, 2, 1}, {"qwen3_moe", 2, 2, 2, 48, 2, 1, false}},
};

std::string digest_of(const OracleCase& of, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / of.name();
  EXPECT_EQ(run_ranks(of.name(), static_cast<int>(of.ranks), {{digest_variable, file.string()}}),
            0);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class Twins : public testing::TestWithParam<std::pair<OracleCase, OracleCase>> {};

TEST_P(Twins, GiveTheSameBits) {
  const TemporaryFolder folder;
  const std::string one = digest_of(GetParam().first, folder.path());
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, digest_of(GetParam().second, folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Memory, Twins, testing::ValuesIn(twins));

std::map<std::string, Scenario> scenarios() {
  std::map<std::string, Scenario> all;
  const auto add = [&](const OracleCase& of) {
    all[of.name()] = [of](Rendezvous& rendezvous, GlooNetwork& network) {
      require_oracle(of, rendezvous, network);
    };
  };
  for (const OracleCase& of : cases) add(of);
  for (const auto& [one, other] : twins) {
    add(one);
    add(other);
  }
  return all;
}

}  // namespace
}  // namespace xt

int main(int argc, char** argv) { return xt::ranks_main(argc, argv, xt::scenarios()); }
