// Counts of released models, against the sums of their published tensors.

#include <gtest/gtest.h>

#include "costmodel/io/files.h"
#include "costmodel/io/json_document.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "costmodel/models/parameter_counts.h"

namespace xt {
namespace {

TEST(PublishedModels, ParametersOfTheGraphEqualThePublishedTotal) {
  int n_checked = 0;
  for (const auto& path : files_in(XT_MODELS, ".json")) {
    const ModelConfig config = read<ModelConfig>(read_json(path));
    if (!config.published_parameters) continue;
    const OpGraph graph = build_decoder(config.architecture, {.tokens = 64, .dtype = DType::bf16});
    EXPECT_EQ(count_parameters(graph, 1), *config.published_parameters) << path;
    ++n_checked;
  }
  EXPECT_GE(n_checked, 24);
}

// As their makers say: 22 of 235 and 3.3 of 30.5 (Qwen3), 37 of 671 (DeepSeek-V3), 12.9 of 46.7
// and 39 of 141 (Mixtral); of a dense model all.
TEST(PublishedModels, ATokenPassesAsManyParametersAsTheirNamesSay) {
  const auto billions = [](const char* name) {
    const ModelConfig config = read<ModelConfig>(
        read_json(std::filesystem::path(XT_MODELS) / (std::string(name) + ".json")));
    return static_cast<double>(parameter_counts(config.architecture).of_a_token) * 1e-9;
  };
  EXPECT_NEAR(billions("qwen3_235b_a22b"), 22.2, 0.3);
  EXPECT_NEAR(billions("qwen3_30b_a3b"), 3.35, 0.05);
  EXPECT_NEAR(billions("deepseek_v3"), 37.5, 0.5);
  EXPECT_NEAR(billions("mixtral_8x7b"), 12.9, 0.05);
  EXPECT_NEAR(billions("mixtral_8x22b"), 39.1, 0.2);
  EXPECT_NEAR(billions("qwen3_8b"), 8.19, 0.01);
}

TEST(PublishedModels, ExpertsSpreadOverRanksAreStillAllThere) {
  const ModelConfig config =
      read<ModelConfig>(read_json(std::filesystem::path(XT_MODELS) / "qwen3_30b_a3b.json"));
  for (const std::int64_t expert_parallel : {1, 2, 8, 128}) {
    const OpGraph graph =
        build_decoder(config.architecture,
                      {.tokens = 64, .dtype = DType::bf16, .expert_parallel = expert_parallel});
    EXPECT_EQ(count_parameters(graph, expert_parallel), 30532122624) << expert_parallel;
  }
}

TEST(Mpt, HasLearnedPositionsUnlessItHasAlibi) {
  ModelConfig config =
      read<ModelConfig>(read_json(std::filesystem::path(XT_MODELS) / "mpt_7b.json"));
  Architecture& model = config.architecture;
  EXPECT_EQ(model.position, Position::biased);
  EXPECT_TRUE(model.has_layer_norm && !model.has_gated_ffn && model.tie_word_embeddings);
  const std::int64_t before = count_parameters(build_decoder(model, {.tokens = 8}), 1);
  model.position = Position::learned;
  EXPECT_EQ(count_parameters(build_decoder(model, {.tokens = 8}), 1),
            before + model.max_position_embeddings * model.hidden_size);
}

TEST(RecomputedOps, LeaveOutWhatTheBackwardDoesNotRead) {
  const ModelConfig config =
      read<ModelConfig>(read_json(std::filesystem::path(XT_MODELS) / "tiny_moe.json"));
  const OpGraph graph = build_decoder(config.architecture, {.tokens = 64, .expert_parallel = 2});
  const Block& block = graph.decoder.front();
  std::vector<bool> is_recorded_value;
  for (const GraphValue& value : block.values) is_recorded_value.push_back(value.is_recorded);
  const std::vector<bool> again = recomputed_ops(block, is_recorded_value);
  for (std::size_t i = 0; i < again.size(); ++i) {
    const Kernel kernel = block.forward[i].work.kernel;
    const bool is_last = i + 1 == again.size();
    const bool is_recorded = kernel == Kernel::sort_rows || kernel == Kernel::softmax_top_k ||
                             kernel == Kernel::exchange_counts || kernel == Kernel::bind_rows;
    const bool is_left_out = is_last || is_recorded || kernel == Kernel::unpermute;
    const bool is_read = kernel == Kernel::attention || kernel == Kernel::grouped_matmul;
    EXPECT_FALSE(is_left_out && again[i]) << i;
    EXPECT_FALSE(is_read && !again[i]) << i;
  }
}

}  // namespace
}  // namespace xt
